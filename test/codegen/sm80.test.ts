/** The SM80 lowering on the virtual devices of its successors, against plain loops. */
import { expect, test } from 'vitest'
import { isNested, walkTileOps, type TileOp, type TileProgram } from '../../compiler/ir/pipe.ts'
import { FULL, part, sampled, schedulesOf } from '../cases_of.ts'
import { runWide } from './run_gemm.ts'
import { SM80_CASES } from './sm80_cases.ts'

const COMBINED = [
  'both along k',
  '8 warps',
  'parts of 48 columns',
  '2 stages',
  'tf32',
  'f64',
  'f64, 8 warps',
  'f32, transposed',
  'f32, few rows',
  'f32, few columns',
  'f32, unaligned',
  'f32, two products',
  'f32 in parts',
  'f32 in parts, two products',
  'i8',
  'e4m3, transposed',
  'two products',
  'unaligned output',
  'unaligned',
  'unaligned, of batches and few k',
  'unaligned, two products',
  'by words, two products',
  'two warps share k',
  'warps share k of bytes',
  'k less than the stages',
]

const KEPT = ['rows of one piece, unaligned', 'by words', 'by words, beside elements']

test.each(part(SM80_CASES, COMBINED, KEPT))('%s', { timeout: 60_000 }, async (name, wide) => {
  for (const result of await runWide(wide, schedulesOf(name)))
    expect(result).toEqual({ findings: [], wrong: 0, first: null })
})

/** Without the operation at this path of the only role. */
function without(program: TileProgram, path: readonly number[]): TileProgram {
  const cut = (ops: readonly TileOp[], [at, ...inner]: readonly number[]): TileOp[] =>
    ops.flatMap((op, i): TileOp[] => {
      if (i !== at) return [op]
      return inner.length === 0 || !isNested(op) ? [] : [{ ...op, body: cut(op.body, inner) }]
    })
  return { ...program, roles: program.roles.map((role) => ({ ...role, body: cut(role.body, path) })) }
}

// Several tiles for each CTA, and several blocks of rows for each warp. Pipelines of f32 have the same operations: the full test runs them.
test.each(sampled([
  ['f16', { tile: [64, 128], sm80: { stages: 3 }, extents: { l: 1, m: 150, n: 150, k: 330 }, smCount: 1 }],
  ['f32', { a: 'f32', tile: [64, 64], sm80: { tile: [64, 64, 16], stages: 3 }, extents: { l: 1, m: 190, n: 190, k: 100 }, smCount: 1 }],
] as const))('no wait, commit or barrier of %s can be left out unnoticed', { timeout: 120_000 }, async (_, wide) => {
  const paths: { readonly op: string; readonly path: readonly number[] }[] = []
  await runWide({ ...wide, edit: (program) => {
    for (const [{ op }, path] of walkTileOps(program.roles[0]!.body))
      if (['copy_wait', 'copy_commit', 'cta_sync', 'warp_sync'].includes(op)) paths.push({ op, path })
    return program
  } }, [{ order: 'lazy' }])
  expect(paths.map(({ op }) => op)).toEqual([
    'copy_commit', 'copy_wait', 'cta_sync', 'copy_commit', 'copy_wait', 'cta_sync', 'cta_sync', 'warp_sync', 'warp_sync', 'cta_sync',
  ])
  const unnoticed: string[] = []
  // Each kind at its first place, where not all runs, and at half of the others.
  const first = (op: string, i: number): boolean => paths.findIndex((one) => one.op === op) === i
  for (const [i, { op, path }] of paths.entries()) {
    if (!FULL && !first(op, i) && i % 2 === 0) continue
    const results = await runWide({ ...wide, edit: (program) => without(program, path) }, [{ order: 'lazy' }, { order: 'random', seed: 3, checks: 'full' }])
    if (results.every(({ findings, wrong }) => findings.length === 0 && wrong === 0)) unnoticed.push(`${op} at ${path.join('.')}`)
  }
  expect(unnoticed).toEqual([])
}) // prettier-ignore
