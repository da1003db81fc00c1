/** Tensor maps of many kinds, from the driver and from ktl. */
import { loadAddon } from '../../runtime/addon/load.ts'
import { driverPath } from '../../runtime/addon/probe.ts'
import type { Device } from '../../runtime/index.ts'
import { createTensorMap, type TensorMapOptions } from '../../runtime/tensors/tensor_map.ts'

/** CUtensorMapDataType. */
const TYPES = { u8: 0, u16: 1, u32: 2, i32: 3, u64: 4, i64: 5, f16: 6, f32: 7, f64: 8, bf16: 9, f32_ftz: 10, tf32: 11, tf32_ftz: 12 } as const // prettier-ignore
const BYTES = { u8: 1, u16: 2, u32: 4, i32: 4, u64: 8, i64: 8, f16: 2, f32: 4, f64: 8, bf16: 2, f32_ftz: 4, tf32: 4, tf32_ftz: 4 } as const // prettier-ignore
const SWIZZLES = ['none', '32B', '64B', '128B'] as const
const L2_PROMOTIONS = ['none', '64B', '128B', '256B'] as const
const SPANS = { none: 256, '32B': 32, '64B': 64, '128B': 128 } as const

export async function tensorMapProbes(device: Device): Promise<{ compared: number; different: string[] }> {
  const native = new (loadAddon().CudaDevice)(driverPath(), 0)
  const pointer = device.malloc(1 << 20)
  const different: string[] = []
  let compared = 0
  const probe = (
    options: Omit<TensorMapOptions, 'address'> & { dtype: keyof typeof TYPES; box: readonly number[] },
  ): void => {
    const { dtype, dims, strides = [], box, elementStrides = box.map(() => 1), swizzle = 'none', l2Promotion = 'none', oobFill = 'zeros' } = options // prettier-ignore
    const modes = [
      0,
      SWIZZLES.indexOf(swizzle as 'none'),
      L2_PROMOTIONS.indexOf(l2Promotion),
      oobFill === 'nan' ? 1 : 0,
    ] as const
    const theirs = native.encodeTensorMap(TYPES[dtype], pointer, dims.map(Number), strides.map(Number), box, elementStrides, modes) // prettier-ignore
    const ours = createTensorMap({ ...options, address: pointer }).bytes
    compared++
    if (Buffer.compare(ours, theirs) !== 0)
      different.push(
        `${JSON.stringify(options)}: ${Buffer.from(ours).toString('hex')}, the driver ${Buffer.from(theirs).toString('hex')}`,
      )
  }
  for (const dtype of Object.keys(TYPES) as (keyof typeof TYPES)[]) {
    for (const swizzle of SWIZZLES) {
      const width = SPANS[swizzle] / BYTES[dtype]
      probe({ dtype, dims: [1000, 77], strides: [16384], box: [width, 64], swizzle, l2Promotion: '128B' })
    }
  }
  for (let rank = 1; rank <= 5; rank++) {
    const dims = [1 << 20, 33, 7, 5, 3].slice(0, rank)
    const strides = [1 << 24, 1 << 30, 2 ** 34, 2 ** 36].slice(0, rank - 1)
    for (const l2Promotion of L2_PROMOTIONS)
      probe({ dtype: 'bf16', dims, strides, box: [64, 8, 2, 1, 3].slice(0, rank), elementStrides: [1, 2, 1, 3, 1].slice(0, rank), l2Promotion, oobFill: 'nan' }) // prettier-ignore
  }
  native.close()
  device.free(pointer)
  return { compared, different }
}
