export { loadNpy, loadSafetensors, saveNpy, saveSafetensors, type Storable } from './files.ts'
export { readNpy, writeNpy } from './npy.ts'
export { readSafetensors, writeSafetensors, type ReadSafetensorsOptions, type Safetensors } from './safetensors.ts'
export { toStoredArray, type StoredArray, type StoredData } from './stored.ts'
