/** What a call has to do at least: operations of its contractions, bytes that cross device memory once. */
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { operandNamed, plainTerms, topological } from '../../compiler/ir/walk.ts'
import { trafficBytes } from '../discovery/ranking/memory.ts'
import type { Extents } from '../discovery/ranking/rank.ts'
import { arithmeticOf, type Arithmetic, type Peak } from './peaks.ts'

export interface Work {
  /** A multiply-add is two; the epilogue's operations do not count. */
  readonly operations: number
  readonly bytes: number
  /** null: nothing is contracted. */
  readonly arithmetic: Arithmetic | null
}

export function workOf(program: TensorProgram, extents: Extents): Work {
  const over = (axes: readonly string[]): number => axes.reduce((product, axis) => product * (extents[axis] ?? 1), 1)
  const dtypeOf = (name: string) => operandNamed(program, name).dtype
  let operations = 0
  let arithmetic: Arithmetic | null = null
  for (const node of topological(program.outputs.map(({ value }) => value))) {
    if (node.kind !== 'contract') continue
    for (const term of node.terms) operations += 2 * over([...node.axes, ...term.over])
    const [{ a, b }] = plainTerms(node) ?? [{}]
    if (a && b) arithmetic ??= arithmeticOf(dtypeOf(a.operand), dtypeOf(b.operand))
  }
  return { operations, bytes: trafficBytes(program, extents), arithmetic }
}

export interface Rates {
  readonly teraops: number
  readonly gigabytes: number
  /** Of the arithmetic's peak and of memory bandwidth's; null: not known for the device. */
  readonly ofPeak: number | null
  readonly ofBandwidth: number | null
}

export function ratesOf({ operations, bytes, arithmetic }: Work, milliseconds: number, peak: Peak | null): Rates {
  const teraops = operations / milliseconds / 1e9
  const gigabytes = bytes / milliseconds / 1e6
  const most = (arithmetic && peak?.teraops[arithmetic]) ?? null
  return {
    teraops,
    gigabytes,
    ofPeak: most === null ? null : teraops / most,
    ofBandwidth: peak === null ? null : gigabytes / peak.gigabytes,
  }
}
