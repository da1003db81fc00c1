/** The SM80 lowering on the virtual devices of its successors, against plain loops. */
import { expect, test } from 'vitest'
import { isNested, walkTileOps, type TileOp, type TileProgram } from '../../compiler/ir/pipe.ts'
import { runWide } from './run_gemm.ts'
import { SM80_CASES } from './sm80_cases.ts'

/** Late, and shuffled with the race detector. */
const SCHEDULES = [{ order: 'eager' }, { order: 'lazy' }, { order: 'random', seed: 3, checks: 'full' }] as const

test.each(SM80_CASES)('%s', { timeout: 60_000 }, async (_, wide) => {
  for (const result of await runWide(wide, SCHEDULES)) expect(result).toEqual({ findings: [], wrong: 0, first: null })
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

test('no wait, commit or barrier can be left out unnoticed', { timeout: 120_000 }, async () => {
  // Several tiles for each CTA, and several blocks of rows for each warp.
  const wide = { tile: [64, 128], sm80: { stages: 3 }, extents: { l: 1, m: 150, n: 150, k: 330 }, smCount: 1 } as const
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
  for (const { op, path } of paths) {
    const results = await runWide({ ...wide, edit: (program) => without(program, path) }, [{ order: 'lazy' }, SCHEDULES[2]])
    if (results.every(({ findings, wrong }) => findings.length === 0 && wrong === 0)) unnoticed.push(`${op} at ${path.join('.')}`)
  }
  expect(unnoticed).toEqual([])
}) // prettier-ignore
