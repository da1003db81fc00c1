/**
 * A layer of a mixture of experts in four kernels and a sort, replayed as one graph, and held against plain loops:
 *
 *   node --import tsx --import ktl/register samples/apps/moe/main.ts
 */
import { dequantize, openDevice, quantize, randomValues, ScaledOperand, type Tensor } from 'ktl'
import kernels from './layer.ktl'
import { MoeLayer, type MoeOperands } from './layer.ts'

const device = await openDevice('virtual-sm90') // 'auto' takes a GPU where there is one
// Tokens, their width, choices of a token, experts and their hidden width; the last expert has no tokens.
const [S, K, J, G, F] = [24, 128, 2, 5, 256]
const normal = (dtype: 'bf16' | 'f32', shape: readonly number[], seed: number): Tensor => {
  const count = shape.reduce((product, extent) => product * extent, 1)
  return device.tensor(
    dtype,
    shape,
    randomValues('f32', count, seed, 'normal').map((x) => x / 4),
  )
}
const experts = device.tensor('i32', [S, J], 0)
const weights = device.tensor('f32', [S, J], 0)
const Y = device.empty('bf16', [S, K])
/** Two experts for each token, as if a router had chosen them; a token may have one choice only. */
const chosen = (seed: number): number[] =>
  Array.from({ length: S }, (_, s) => [
    (s * seed) % (G - 1),
    s % 7 === 6 ? -1 : (s * seed + 1 + (s % 2)) % (G - 1),
  ]).flat()

const bf16: MoeOperands = {
  X: normal('bf16', [S, K], 1),
  gate: normal('bf16', [G, K, F], 2),
  up: normal('bf16', [G, K, F], 3),
  down: normal('bf16', [G, F, K], 4),
  ...{ experts, weights, Y },
}
await replay('bf16', bf16)

const WEIGHTS = 'e4m3[g, n, k] * f32[g, n/128, k/128]'
const fp8: MoeOperands = {
  X: await quantize(normal('f32', [S, K], 1), 'e4m3[s, k] * f32[s, k/128]'),
  gate: await quantize(normal('f32', [G, F, K], 2), WEIGHTS),
  up: await quantize(normal('f32', [G, F, K], 3), WEIGHTS),
  down: await quantize(normal('f32', [G, K, F], 4), WEIGHTS),
  ...{ experts, weights, Y },
}
await replay('fp8', fp8)
await device.close()

/** One graph, and new choices for each launch of it. */
async function replay(name: string, operands: MoeOperands): Promise<void> {
  const layer = await MoeLayer.prepare(kernels, operands)
  const graph = device.capture((stream) => layer.launch(stream))
  for (const seed of [1, 3]) {
    await experts.copyFrom(chosen(seed))
    await weights.copyFrom(randomValues('f32', S * J, seed + 10, 'normal').map(Math.abs))
    graph.launch()
    const y = await Y.toArray()
    const expected = await plainLoops(operands)
    const size = Math.max(...expected.map(Math.abs))
    // bf16 and e4m3 hold 8 and 4 significant bits: of what is stored between the kernels, and of the result.
    const allowed = (name === 'fp8' ? 2 ** -4 : 2 ** -7) * size
    const wrong = expected.filter((value, i) => !(Math.abs(value - y[i]!) <= allowed)).length
    console.log(
      `${name}, choices ${seed}: ${wrong === 0 ? `all ${expected.length} elements are right` : `${wrong} WRONG`}`,
    )
  }
  graph.free()
  layer.free()
}

/** The layer token by token, over the values that the operands stand for. */
async function plainLoops({ X, gate, up, down }: MoeOperands): Promise<number[]> {
  const isFp8 = X instanceof ScaledOperand
  const values = async (operand: Tensor | ScaledOperand): Promise<ArrayLike<number>> =>
    (operand instanceof ScaledOperand ? await dequantize(operand) : operand).toArray() as Promise<Float32Array>
  const [x, g, u, d] = [await values(X), await values(gate), await values(up), await values(down)]
  const [ids, w] = [await experts.toArray(), await weights.toArray()]
  // Matrices are [G, in, out] in bf16 and [G, out, in] in fp8.
  const at = (matrix: ArrayLike<number>, e: number, i: number, o: number, rows: number, columns: number): number =>
    matrix[e * rows * columns + (isFp8 ? o * rows + i : i * columns + o)]!
  const sum = (count: number, term: (i: number) => number): number => {
    let total = 0
    for (let i = 0; i < count; i++) total += term(i)
    return total
  }
  const y = new Array<number>(S * K).fill(0)
  for (let s = 0; s < S; s++)
    for (let j = 0; j < J; j++) {
      const e = ids[s * J + j]!
      if (e < 0 || e >= G) continue
      const h = Array.from({ length: F }, (_, f) => {
        const gated = sum(K, (k) => x[s * K + k]! * at(g, e, k, f, K, F))
        return (gated / (1 + Math.exp(-gated))) * sum(K, (k) => x[s * K + k]! * at(u, e, k, f, K, F))
      })
      for (let n = 0; n < K; n++) y[s * K + n]! += w[s * J + j]! * sum(F, (f) => h[f]! * at(d, e, f, n, F, K))
    }
  return y
}
