import { probeAddon } from './load.ts'
import type { CudaStatus, NvrtcStatus } from './cuda.ts'

/** The driver library to use instead of the installed one. */
export const driverPath = (env: NodeJS.ProcessEnv = process.env): string => env.KTL_CUDA_DRIVER ?? ''
/** The NVRTC to use instead of one that the system finds. */
export const nvrtcPath = (env: NodeJS.ProcessEnv = process.env): string => env.KTL_NVRTC ?? ''

/**
 * The driver and its GPUs, or why there are none; never throws.
 *
 * @example
 * const status = probeCuda()
 * console.log('reason' in status ? `no GPU: ${status.reason}` : 'there is a GPU')
 */
export function probeCuda(): CudaStatus {
  const { addon } = probeAddon()
  return addon ? addon.probeCuda(driverPath()) : { reason: 'the native addon is not loaded' }
}

/**
 * NVRTC, which compiles where there is no nvcc, or why there is none; never throws.
 *
 * @example
 * const status = probeNvrtc()
 * console.log('reason' in status ? `no NVRTC: ${status.reason}` : 'NVRTC compiles here')
 */
export function probeNvrtc(): NvrtcStatus {
  const { addon } = probeAddon()
  return addon ? addon.probeNvrtc(nvrtcPath()) : { reason: 'the native addon is not loaded' }
}

/** Oldest compute capability that kernels are made for. */
export const MINIMUM_CC = 80
