/** The formats as files on disk; written files appear complete or not at all. */
import type { HostArray } from '../tensors/host_array.ts'
import { writeFileSafely } from '../files/safe_write.ts'
import { Tensor } from '../tensors/tensor.ts'
import { readNpy, writeNpy } from './npy.ts'
import { readSafetensors, writeSafetensors, type ReadSafetensorsOptions, type Safetensors } from './safetensors.ts'
import { toStoredArray, type StoredArray } from './stored.ts'
import { optionsOf, textOf } from '../errors/given.ts'
import { readWhole } from '../files/read_file.ts'

/** What can be stored: tensors of devices are copied to the host first. */
export type Storable = Tensor | HostArray

/** In a box: an array of another library may have a `then` of its own. */
const stored = async (array: Storable): Promise<{ readonly array: HostArray }> => ({
  array: array instanceof Tensor ? await toStoredArray(array) : array,
})

/**
 * As `readNpy`; KTL6072 when the file cannot be read.
 *
 * @example
 * await saveNpy(`${folder}/y.npy`, device.tensor('i32', [3], [7, 8, 9]))
 * const { dtype, data } = await loadNpy(`${folder}/y.npy`)
 * console.log(dtype, [...data]) // i32 [ 7, 8, 9 ]
 */
export async function loadNpy(file: string | URL): Promise<StoredArray> {
  return readNpy(await readWhole(file))
}

/**
 * As `writeNpy`; KTL6008 when the file cannot be written.
 *
 * @example
 * const file = `${folder}/x.npy`
 * await saveNpy(file, device.tensor('f32', [2, 2], [1, 2, 3, 4]))
 * console.log((await loadNpy(file)).shape) // [ 2, 2 ]
 */
export async function saveNpy(file: string, array: Storable): Promise<void> {
  await writeFileSafely(textOf('file', file, 'a path'), writeNpy((await stored(array)).array))
}

/**
 * As `readSafetensors`; KTL6072 when the file cannot be read.
 *
 * @example
 * await saveSafetensors(`${folder}/v.safetensors`, { a: device.tensor('f32', [1], [1]), b: device.tensor('f32', [2], [2, 3]) })
 * const { tensors } = await loadSafetensors(`${folder}/v.safetensors`, { names: ['b'] })
 * console.log(tensors.get('b')!.shape) // [ 2 ]
 */
export async function loadSafetensors(file: string | URL, options: ReadSafetensorsOptions = {}): Promise<Safetensors> {
  return readSafetensors(await readWhole(file), options)
}

/**
 * As `writeSafetensors`; KTL6008 when the file cannot be written.
 *
 * @example
 * const file = `${folder}/w.safetensors`
 * await saveSafetensors(file, { weight: device.tensor('bf16', [2], [1, 2]) })
 * console.log([...(await loadSafetensors(file)).tensors.keys()]) // [ 'weight' ]
 */
export async function saveSafetensors(
  file: string,
  tensors: Readonly<Record<string, Storable>>,
  metadata: Readonly<Record<string, string>> = {},
): Promise<void> {
  const arrays = new Map<string, HostArray>()
  textOf('file', file, 'a path')
  for (const [name, array] of Object.entries(optionsOf('tensors', tensors ?? (null as never))))
    arrays.set(name, (await stored(array)).array)
  await writeFileSafely(file, writeSafetensors(arrays, metadata))
}
