import { afterEach, expect, test, vi } from 'vitest'
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import { TARGETS, type Plan } from '../../compiler/targets/index.ts'
import { KtlError } from '../../grammar/diagnostics.ts'
import { exitCodeOf } from '../../runtime/cli/exit.ts'
import { Output } from '../../runtime/cli/output.ts'
import { createProgram } from '../../runtime/cli/program.ts'

afterEach(() => vi.restoreAllMocks())

/** What `ktl inspect --stage tile` prints, and what it throws. */
async function inspect(): Promise<{ text: string; error: unknown }> {
  let text = ''
  const written = vi.spyOn(process.stdout, 'write').mockImplementation((chunk) => ((text += String(chunk)), true))
  const { signal } = new AbortController()
  const command = createProgram({ out: new Output(), signal }, () => {})
  const error = await command
    .parseAsync(['inspect', 'samples/gemm.ktl', '--stage', 'tile'], { from: 'user' })
    .then(() => null, (thrown: unknown) => thrown) // prettier-ignore
  written.mockRestore()
  return { text, error }
}

test('a program that is well formed is printed', async () => {
  const { text, error } = await inspect()
  expect(error).toBeNull()
  expect(text).toContain('role mma (warp 5): issues the MMAs')
})

test('a broken pipeline program is printed, and then refused as a mistake of the compiler', async () => {
  const target = TARGETS.get('sm100')
  const lower = target.pipeline!.bind(target) as (plan: Plan) => TileProgram
  vi.spyOn(target, 'pipeline').mockImplementation(((plan: Plan) => {
    const program = lower(plan)
    return { ...program, roles: program.roles.filter(({ name }) => name !== 'mma') }
  }) as never)
  const { text, error } = await inspect()
  expect(text).toContain('tile program gemm')
  expect(error).toBeInstanceOf(KtlError)
  const [{ code, message, notes }] = (error as KtlError).diagnostics as [KtlError['diagnostics'][number]]
  expect([code, exitCodeOf(error, new AbortController().signal)]).toEqual(['KTL9002', 70])
  expect(message).toMatch(/^the pipeline program of ktl\.gemm\S* is broken: /)
  expect([message, ...(notes ?? [])].join('\n')).toContain('chunks that are summed is [], not [null]')
})
