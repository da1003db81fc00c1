/** What the cases of single instructions share: numbers for their operands, and launches that record.ts saves for a GPU. */
import { encode } from '../../compiler/codec.ts'
import { normal } from '../../compiler/evaluate/generate.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { openDevice } from '../../runtime/index.ts'
import { recordLaunches } from './record.ts'

/** CTAs of a launch, of 128 threads. */
export const BLOCKS = 8

const BYTES: Record<string, number> = { f16: 2, bf16: 2, tf32: 4, f32: 4, s32: 4, f64: 8 }
/** Bytes of an element; of less than one, 1. */
export const bytesOf = (type: string) => BYTES[type] ?? 1
const DTYPES: Record<string, DTypeName> = { s8: 'i8', s32: 'i32', tf32: 'f32', s4: 'i8', u4: 'i8', b1: 'i8' }
export const isInteger = (type: string) => ['s8', 'u8', 's32', 's4', 'u4', 'b1'].includes(type)

/** Normal numbers; `wide`: times powers of two from 2^-8 to 2^8; `special`: one of 64 is infinite or NaN. */
export type Kind = 'normal' | 'wide' | 'special'
const SPECIAL = [Infinity, -Infinity, NaN]

/** `bytes` bytes of numbers of a type. */
export function data(type: string, bytes: number, seed: number, kind: Kind): Uint8Array {
  const one = (x: number, i: number) => {
    if (isInteger(type)) return type === 'u8' ? Math.abs(Math.round(x * 40)) : Math.round(x * 40)
    const place = (i * 7919) % 4099
    return kind === 'wide' ? x * 2 ** ((place % 17) - 8) : kind === 'special' && place % 64 === 0 ? SPECIAL[place % 3]! : x
  }
  const codes = encode(DTYPES[type] ?? (type as DTypeName), Float64Array.from(normal(bytes / bytesOf(type), seed), one))
  return new Uint8Array(codes.buffer, codes.byteOffset, codes.byteLength)
} // prettier-ignore

/** A function that runs the kernel `run` of a source on the virtual SM90 and records it in `folder`. Findings are printed. */
export function recorder(folder: string) {
  let label = ''
  let recorded = 0
  recordLaunches(folder, () => label)
  const record = async (name: string, source: string, inputs: readonly Uint8Array[], outBytes: number, shared: number) => {
    label = name
    const device = await openDevice('virtual-sm90', { checks: 'full' })
    const module = await device.compileCuda(source, { arch: 'sm_90a' })
    const params: bigint[] = []
    for (const input of inputs) {
      const address = device.malloc(input.length)
      await device.write(address, input)
      params.push(address)
    }
    params.push(device.malloc(outBytes))
    const { findings } = await module
      .function('run')
      .launch({ grid: [BLOCKS, 1, 1], block: [128, 1, 1], sharedMemBytes: shared, params })
    for (const finding of findings) console.error(`${name}: ${finding.message}`)
    recorded++
    await device.close()
  }
  return { record, report: () => console.error(`${recorded} launches recorded`) }
} // prettier-ignore
