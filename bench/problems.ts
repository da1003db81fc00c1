/** Inputs that several benchmarks share. */
import { EpilogueArguments, GemmArguments, type Device, type DTypeName } from '../runtime/index.ts'

/** -2 to 2, always the same ones. */
export function values(count: number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => ((Math.imul(i, 2654435761) >>> 16) % 5) - 2)
}

/** A square GEMM; A, B and C hold the same `values`. With an epilogue: the demo's. */
export function squareGemm(device: Device, dtype: DTypeName, size: number, epilogue: boolean): GemmArguments {
  const shape = [size, size]
  const full = () => device.tensor(dtype, shape, values(size * size))
  return new GemmArguments({
    A: full(),
    B: full(),
    out: device.empty(dtype, shape),
    ...(epilogue && { epilogue: new EpilogueArguments('relu(acc*alpha+C)', { alpha: 2, C: full() }) }),
  })
}
