import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { printProgram } from '../../codegen/index.ts'
import { lowerSm100 } from '../../compiler/targets/sm100/lower.ts'
import { bound, design, generated, planned } from '../compiler/support.ts'

const FUSED = `/// The sample's GEMM with its epilogue written in.
kernel fused(A: f16[l?, m, k] | f16[l?, k, m], B: f16[l?, k, n] | f16[l?, n, k], C: f16[l?, m, n], alpha: f32)
  -> D: f16[l?, m, n] | f16[l?, n, m] { D = relu(sum[k](A * B) * alpha + C) }`
const EVERYTHING = `kernel all(A: bf16[l, m, k], B: bf16[l, n, k], C: bf16[m, n], E: i8[l, m, n], r: f32[n], c: f16[m], b: e4m3[l], beta: f32)
  -> (D: f16[l, m, n], F: f32[l, m, n], G: bf16[l, n, m]) {
  acc = sum[k](A * B)
  F = gelu_tanh(acc * b + r) * c
  D = relu(F) + skip0(beta) * C
  G = select(F > 0, silu(acc), E)
}`

const folder = mkdtempSync(join(tmpdir(), 'ktl-sm100-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function nvcc(cuda: string, ...flags: string[]): { status: number | null; log: string } {
  const file = join(folder, 'kernel.cu')
  writeFileSync(file, cuda)
  const { status, stdout, stderr } = spawnSync('nvcc', [...flags, file, '-o', join(folder, 'out')], {
    encoding: 'utf8',
  })
  return { status, log: stdout + stderr }
}

describe('text', () => {
  const plan = planned(bound(FUSED), design([128, 128]))
  const kernel = generated(plan, 'ktl.fused')
  test('reads as intended', () => expect(kernel.cuda).toMatchFileSnapshot('../golden/fused_sm100.cu'))

  test('the source map points at what each line is for', () => {
    const lines = kernel.cuda.split('\n')
    const at = (note: string): string[] =>
      kernel.sourceMap.filter((e) => e.note === note).map((e) => lines[e.cudaLine - 1]!.trim())
    expect(at('wait full')).toEqual(['mbarrier_wait(smem + FULL + 8 * stage, stage_phase);'])
    expect(at('commit to acc_full')).toEqual(['tcgen05_commit_cg1(smem + ACC_FULL + 8 * acc);'])
    const [value] = kernel.sourceMap.filter((e) => e.note === 'value of D')
    expect(value).toMatchObject({ role: 'epilogue' })
    expect(FUSED.slice(value!.ktl!.start, value!.ktl!.end)).toContain('relu(')
  })

  test('the same plan gives the same text', () => expect(generated(plan, 'ktl.fused').cuda).toBe(kernel.cuda))

  test('user names and comments cannot reach the text as code', () => {
    const hostile = `kernel __global__x(while_: f16[m, k], B: f16[n, k], asm: f32[n]) -> threadIdx: f16[m, n] { threadIdx = sum[k](while_ * B) + asm }`
    const { cuda } = generated(planned(bound(hostile), design([128, 64])), 'ktl.*/ evil\\')
    const { status, log } = nvcc(cuda, '-arch=sm_100a', '-cubin', '-DKTL_DEVICE_ONLY', '-std=c++17')
    expect(log).toBe('')
    expect(status).toBe(0)
  })

  test('an edited tile program prints without the operation', () => {
    const program = lowerSm100(plan)
    const without = { ...program, roles: program.roles.map((r) => (r.name === 'mma' ? { ...r, body: [] } : r)) }
    expect(printProgram(without, 'ktl.fused').cuda).not.toContain('tcgen05_mma_f16_cg1(tmem')
  })
})

describe('ptxas', () => {
  const FLAGS = [
    '-arch=sm_100a',
    '-cubin',
    '-fmad=false',
    '-lineinfo',
    '-DKTL_DEVICE_ONLY',
    '-std=c++17',
    '-Xptxas',
    '-v,-warn-spills',
  ]
  test.each([
    ['fused, row-major', bound(FUSED), [128, 256]],
    ['fused, M-major A and D', bound(FUSED, { orders: { A: ['l', 'k', 'm'], D: ['l', 'n', 'm'] } }), [64, 96]],
    ['fused, direct store', bound(FUSED, { divisibility: { D: 'element', C: 'element' } }), [128, 32]],
    ['every kind of operand, three outputs', bound(EVERYTHING), [128, 128]],
    ['every kind of operand, 64 rows', bound(EVERYTHING, { divisibility: { F: 'element' } }), [64, 256]],
  ] as const)('accepts %s with 0 spills and no warning', (_, program, tile) => {
    const { cuda } = generated(planned(program, design(tile)), 'ktl.test')
    const { status, log } = nvcc(cuda, ...FLAGS)
    expect(log).not.toMatch(/error|warning/)
    expect(log).toContain('0 bytes spill stores, 0 bytes spill loads')
    expect(status).toBe(0)
  })

  test('the host launcher compiles as the header says', () => {
    const { cuda } = generated(planned(bound(EVERYTHING), design([128, 64])), 'ktl.test')
    const line = /^\/\/ Host launcher .*: nvcc (.*) kernel\.cu -o kernel\.o$/m.exec(cuda)![1]!
    expect(nvcc(cuda, ...line.split(' '))).toEqual({ status: 0, log: '' })
  })
})
