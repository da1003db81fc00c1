export {
  BLASDesignMetadata,
  Sm100DesignMetadata,
  Sm90DesignMetadata,
  SimtDesignMetadata,
  type DesignMetadata,
  type Shape3,
} from './design.ts'
export { EpilogueMetadata, KernelMetadata, type KernelMetadataFields } from './kernel.ts'
export { GemmOperandsMetadata, OperandsMetadata, TensorAttributes } from './operands.ts'
