export {
  BLASDesignMetadata,
  Sm100DesignMetadata,
  Sm90DesignMetadata,
  Sm80DesignMetadata,
  SimtDesignMetadata,
  type BLASDesignFields,
  type DesignMetadata,
  type Sm100DesignFields,
  type Sm90DesignFields,
  type Sm80DesignFields,
  type TileScheduler,
} from './design.ts'
export type { Shape3 } from './check.ts'
export { EpilogueMetadata, type EpilogueFields, type Transport } from './epilogue.ts'
export { KernelMetadata, type KernelMetadataFields } from './kernel.ts'
export { ScaledOperandConstraints, type ScaledOperandFields } from './scaled.ts'
export {
  ElementwiseOperandsMetadata,
  GemmOperandsMetadata,
  GroupedGemmOperandsMetadata,
  layoutString,
  OperandsMetadata,
  TensorAttributes,
  type AnyOperandsMetadata,
  type GemmOperandsFields,
  type GroupedGemmOperandsFields,
  type TensorAttributesFields,
} from './operands.ts'
