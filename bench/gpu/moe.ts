/**
 * A whole layer of a mixture of experts, from tokens and the router's choices to tokens, against the same layer in PyTorch, eager and
 * compiled, in one run with rounds that take turns:
 *   node dist/bench/moe.js [--only TEXT] [--rounds N] [--seed N] [--out FILE]
 * Ours is one graph of samples/apps/moe. Theirs sorts, gathers, multiplies groups by torch._grouped_mm and sums rows again.
 */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { uniform } from '../../compiler/evaluate/generate.ts'
import { packageRoot } from '../../runtime/files/package_root.ts'
import { fillNormal, poison } from '../../runtime/bench/fill.ts'
import { geomean, summarize, type Summary } from '../../runtime/bench/statistics.ts'
import { formatTable } from '../../runtime/bench/table.ts'
import { EventTimer, warmUpOf } from '../../runtime/bench/timer.ts'
import { deviceKey } from '../../runtime/discovery/ranking/tuning.ts'
import { loadKtl, openDevice, type Device, type Tensor } from '../../runtime/index.ts'
import { seedOf } from '../../runtime/selftest/values.ts'
import { MoeLayer, type MoeKernels } from '../../samples/apps/moe/layer.ts'
import { Peer } from '../../runtime/bench/suite/peer.ts'
import type { Rival } from './problems.ts'

/** S tokens of K numbers choose J of G experts of F hidden numbers. */
interface LayerProblem {
  readonly name: string
  readonly s: number
  readonly k: number
  readonly f: number
  readonly g: number
  readonly j: number
  /** How tokens choose: each expert alike, or in proportion to 1 / rank. */
  readonly choice: 'uniform' | 'zipf'
}

/** Widths, experts and choices of two public models. */
const MODELS = {
  'Qwen3-30B-A3B': { k: 2048, f: 768, g: 128, j: 8 },
  'Mixtral 8x7B': { k: 4096, f: 14_336, g: 8, j: 2 },
} as const
const TOKENS = [8192, 1024, 64] as const

const PROBLEMS: readonly LayerProblem[] = Object.entries(MODELS).flatMap(([model, extents]) =>
  TOKENS.flatMap((s) =>
    (['uniform', 'zipf'] as const).map((choice) => ({
      name: `${model}, ${s} tokens, ${choice}`,
      ...extents,
      s,
      choice,
    })),
  ),
)

/** Launches of a round. */
const LAUNCHES = 10
/** Tokens whose result is compared. */
const CHECKED = 32
/** bf16 keeps 8 significant bits of what stands between the products, and of the result. */
const BOUND = 1e-2

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    rounds: { type: 'string', default: '7' },
    seed: { type: 'string', default: '1' },
    out: { type: 'string' },
  },
})

interface Result {
  readonly problem: LayerProblem
  readonly ours: Summary
  readonly theirs: Readonly<Partial<Record<Rival, Summary>>>
  readonly error: number | null
}

/** Different experts for each token, the more often the earlier they stand in `shares`. */
function choose({ s, g, j, choice }: LayerProblem, seed: number): { experts: Int32Array; weights: Float32Array } {
  const next = uniform(seed)
  const shares = Array.from({ length: g }, (_, i) => (choice === 'uniform' ? 1 : 1 / (i + 1)))
  const experts = new Int32Array(s * j)
  const weights = Float32Array.from({ length: s * j }, () => (0.5 + next()) / j)
  for (let token = 0; token < s; token++) {
    // The j largest of u^(1 / share): a draw without repetition in proportion to the shares (Efraimidis and Spirakis, 2006).
    const keys = shares.map((share, i) => ({ i, key: Math.log(next()) / share }))
    keys.sort((a, b) => b.key - a.key)
    for (let c = 0; c < j; c++) experts[token * j + c] = keys[c]!.i
  }
  return { experts, weights }
}

async function measure(problem: LayerProblem, device: Device, timer: EventTimer, peer: Peer, kernels: MoeKernels): Promise<Result> {
  const [rounds, seed] = [Number(values.rounds), Number(values.seed)]
  const { s, k, f, g, j } = problem
  const folder = mkdtempSync(path.join(tmpdir(), 'ktl-moe-'))
  const tensors: Tensor[] = []
  const normal = async (name: string, shape: readonly number[]): Promise<Tensor> => {
    const tensor = device.empty('bf16', shape)
    tensors.push(tensor)
    await fillNormal(tensor, seedOf(seed, name))
    return tensor
  }
  try {
    const chosen = choose(problem, seed)
    const files = { experts: path.join(folder, 'experts'), weights: path.join(folder, 'weights') }
    writeFileSync(files.experts, chosen.experts)
    writeFileSync(files.weights, chosen.weights)
    const experts = device.tensor('i32', [s, j], chosen.experts)
    const weights = device.tensor('f32', [s, j], chosen.weights)
    const Y = device.empty('bf16', [s, k])
    tensors.push(experts, weights, Y)
    await poison(Y)
    const X = await normal('X', [s, k])
    const [gate, up, down] = [await normal('gate', [g, k, f]), await normal('up', [g, k, f]), await normal('down', [g, f, k])]
    const layer = await MoeLayer.prepare(kernels, { X, experts, weights, gate, up, down, Y })
    const graph = device.capture((stream) => layer.launch(stream))
    const rivals = await peer.open({ ...problem, files }, seed)
    const samples = { ours: [] as (readonly number[])[], theirs: new Map<Rival, (readonly number[])[]>(rivals.map((name) => [name, []])) }
    for (let round = 0; round < rounds; round++) {
      const turns = [
        async () => void samples.ours.push(await timer.roundOf(() => graph.launch(), LAUNCHES)),
        ...rivals.map((name) => async () => void samples.theirs.get(name)!.push(await peer.round(name, LAUNCHES, warmUpOf(LAUNCHES)))),
      ]
      for (const turn of round % 2 ? turns.toReversed() : turns) await turn()
    }
    const file = path.join(folder, randomUUID())
    const count = Math.min(CHECKED, s)
    const values16 = await Y.slice([0, count]).toArray()
    writeFileSync(file, Float32Array.from(values16))
    const { error } = await peer.check(file, 'f32', [[0, count]])
    graph.free()
    layer.free()
    return { problem, ours: summarize(samples.ours), theirs: Object.fromEntries([...samples.theirs].map(([name, list]) => [name, summarize(list)])), error }
  } finally {
    tensors.forEach((tensor) => tensor.free())
    await peer.close()
    rmSync(folder, { recursive: true, force: true })
  }
} // prettier-ignore

const RIVALS: readonly Rival[] = ['eager', 'compile']

function report(results: readonly Result[]): string {
  const microseconds = ({ median }: Summary): string => (median * 1000).toFixed(0)
  const ratioOf = ({ ours, theirs }: Result, rival: Rival): number | null =>
    theirs[rival] ? theirs[rival].median / ours.median : null
  const header = [
    'layer',
    'ktl µs',
    ...RIVALS.flatMap((rival) => [`${rival} µs`, 'ratio']),
    'TFLOP/s',
    'error',
    'check',
  ]
  const rows = results.map((result) => {
    const { problem: { name, s, k, f, j }, ours, theirs, error } = result
    const others = RIVALS.flatMap((rival) => (theirs[rival] ? [microseconds(theirs[rival]), ratioOf(result, rival)!.toFixed(2)] : ['', '']))
    const rate = (6 * s * j * k * f) / ours.median / 1e9
    return [name, microseconds(ours), ...others, rate.toFixed(0), error?.toExponential(1) ?? 'NaN', error !== null && error <= BOUND ? 'ok' : 'WRONG']
  }) // prettier-ignore
  const means = RIVALS.flatMap((rival) => {
    const ratios = results.flatMap((result) => ratioOf(result, rival) ?? [])
    return ratios.length === 0 ? [] : [`PyTorch, ${rival} / ktl: geometric mean ${geomean(ratios).toFixed(2)}, worst ${Math.min(...ratios).toFixed(2)}`]
  }) // prettier-ignore
  return `${formatTable(header, rows)}\n\n${means.join('\n')}\n`
}

const device = await openDevice('cuda')
const timer = new EventTimer(device)
const peer = new Peer({ script: 'bench/gpu/moe.py' })
const kernels = (await loadKtl(path.join(packageRoot(), 'samples/apps/moe/layer.ktl'))).kernels as MoeKernels
const { torch, cuda } = await peer.hello()
const head = `${deviceKey(device)}, PyTorch ${torch}, CUDA ${cuda}; medians of ${values.rounds} rounds of ${LAUNCHES}, normal inputs (seed ${values.seed}), bf16`
console.log(head)
const results: Result[] = []
for (const problem of PROBLEMS.filter(({ name }) => name.includes(values.only))) {
  try {
    results.push(await measure(problem, device, timer, peer, kernels))
    console.log(report(results.slice(-1)).split('\n')[2])
  } catch (error) {
    console.log(`${problem.name}: ${(error as Error).message.split('\n')[0]}`)
  }
}
peer.quit()
timer.close()
await device.close()
const text = `node dist/bench/moe.js ${process.argv.slice(2).join(' ')}\n\n${head}\n\n${report(results)}`
console.log(`\n${text}`)
if (values.out !== undefined) writeFileSync(values.out, text)
