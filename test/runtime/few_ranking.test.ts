/** What is chosen for few rows or columns and a large matrix: DRAM is the bound. */
import { afterAll, expect, test } from 'vitest'
import type { Sm90Plan } from '../../compiler/targets/sm90/plan.ts'
import { onPaper } from '../../runtime/bench/suite/open.ts'
import { machineFor } from '../../runtime/discovery/ranking/machine.ts'
import { GemmArguments, getKernels, KtlKernel, openDevice } from '../../runtime/index.ts'
import { estimateSm90 } from '../../runtime/targets/sm90.ts'

const device = await openDevice('virtual-sm90')
afterAll(() => device.close())

test('a large matrix whose rows begin anywhere is read by a vector kernel, as one whose rows are aligned', async () => {
  const firstOf = async ([m, n, k]: readonly [number, number, number]) => {
    const paper = onPaper(device)
    const [A, B, out] = [await paper('bf16', [m, k], [k, 1], 'A'), await paper('bf16', [k, n], [1, k], 'B'), await paper('bf16', [m, n], [n, 1], null)]
    const [first] = getKernels(new GemmArguments({ A, B, out }), { limit: 1 })
    return (first as KtlKernel).plan.kind
  }
  // Measured on an H200, the fastest of tensor-core kernels and of vector kernels: 178 and 141 us, 223 and 138, 212 and 159.
  expect(await firstOf([1, 17642, 14291])).toBe('simt')
  expect(await firstOf([6, 5018, 49943])).toBe('simt')
  expect(await firstOf([2, 11714, 26292])).toBe('simt')
  // 8.8 and 15.8.
  expect(await firstOf([12, 5856, 377])).toBe('sm80')
}) // prettier-ignore

test('rows of few bytes drift apart over a long k: parts of k of wider tiles are faster, of a short one they are not', async () => {
  const machine = { ...machineFor('sm_90a'), taught: false }
  const timeOf = async (k: number, tile: readonly [number, number], parts: number): Promise<number> => {
    const [m, n] = [5840, 8]
    const paper = onPaper(device)
    const [A, B, out] = [await paper('bf16', [m, k], [1, m], 'A'), await paper('bf16', [k, n], [1, k], 'B'), await paper('bf16', [m, n], [n, 1], null)]
    const args = new GemmArguments({ A, B, out })
    const where = { design: { kind: 'sm90', tileShape: [tile[0], tile[1], null] } } as const
    const plans = [...getKernels(args, { where })].filter((kernel): kernel is KtlKernel => kernel instanceof KtlKernel)
    const found = plans.find(({ plan }) => {
      const { design, cluster } = plan as Sm90Plan
      return design.parts === parts && cluster.size === 1 && design.operands === 'ab' && design.consumers === 'cooperative'
    })!
    return estimateSm90(found.plan as Sm90Plan, found.call(args).extents, machine).microseconds
  }
  // Measured on an H200: 72.4 and 77.6 us.
  expect(await timeOf(19120, [256, 16], 3)).toBeLessThan(await timeOf(19120, [64, 8], 1))
  expect(await timeOf(320, [256, 16], 3)).toBeGreaterThan(await timeOf(320, [64, 8], 1))
}) // prettier-ignore
