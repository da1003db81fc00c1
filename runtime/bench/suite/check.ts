/** Whether a result is right, by the other side's own: of the same inputs, in a wider type. */
import { randomUUID } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { DTypeName } from '../../../grammar/vocabulary.ts'
import type { Tensor } from '../../devices/device.ts'
import { poison } from '../fill.ts'
import type { Subject } from '../timer.ts'
import type { Peer } from './peer.ts'
import type { Problem } from './problem.ts'

/**
 * Relative errors that rounding explains: half an ulp of the output, uniformly distributed, is 0.6 of it in the mean square; fp8 sums
 * have 13 fraction bits (fast accumulation), tf32 operands lose 13 of 23. Sums of f32 that nothing is rounded for err by less than 1e-5.
 */
export function boundOf({ a, out, exact, fusion }: Problem): number {
  // Of a block, half a step of its largest; of fp8, of each element.
  if (fusion?.quantised) return fusion.quantised.data === 'i8' ? 0.02 : 0.04
  if (a === 'i8') return 0
  if (a === 'e4m3') return 0.02
  if (exact) return 5e-5
  return ({ bf16: 4e-3, f16: 6e-4, f32: 2e-3, f64: 1e-13 } as Partial<Record<DTypeName, number>>)[out] ?? 1e-2
}

/** Bytes of an output that are checked; of larger ones, evenly spread blocks of rows. */
const CHECKED_BYTES = 32 << 20

export interface Sample {
  /** First row and the one behind the last, rows counted over the whole batch. */
  readonly rows: readonly (readonly [number, number])[]
  readonly bytes: Uint8Array
}

/** Of a dense output. */
export async function sampleOf(out: Tensor): Promise<Sample> {
  const columns = out.shape.at(-1)!
  const total = out.elementCount / columns
  const rowBytes = out.byteLength / total
  const blocks = out.byteLength <= CHECKED_BYTES ? 1 : 16
  const height = blocks === 1 ? total : Math.max(1, Math.floor(CHECKED_BYTES / rowBytes / blocks))
  const starts = Array.from({ length: blocks }, (_, i) => (blocks === 1 ? 0 : Math.floor(((total - height) * i) / (blocks - 1))))
  const parts: Uint8Array[] = []
  for (const start of starts) parts.push(await out.device.read(out.pointer + BigInt(start * rowBytes), height * rowBytes))
  return { rows: starts.map((start) => [start, start + height] as const), bytes: Buffer.concat(parts) }
} // prettier-ignore

/** ‖out − expected‖ / ‖expected‖ of what the kernel writes into an output full of NaNs; null: not a number. `decoded`: its values, where `out` are data with scales. */
export async function errorOf(problem: Problem, out: Tensor, { kernel, args, artifact }: Subject, peer: Peer, decoded?: () => Promise<Tensor>): Promise<number | null> {
  await poison(out)
  await kernel.run(args, { artifact })
  const values = decoded ? await decoded() : out
  const type = values.dtype
  const { rows, bytes } = await sampleOf(values)
  if (decoded) values.free()
  const file = path.join(tmpdir(), `ktl-compare-${randomUUID()}`)
  try {
    writeFileSync(file, bytes)
    return (await peer.check(file, type, rows)).error
  } finally {
    rmSync(file, { force: true })
  }
} // prettier-ignore
