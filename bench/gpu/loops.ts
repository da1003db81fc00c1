/**
 * What further loops into an accumulator cost on a GPU: a low-rank update beside a product (samples/lora.ktl) against the plain
 * product, in one run. Each time is the fastest of the first 8 kernels of its list; three rounds take turns, medians are reported.
 *
 *   node build.mjs && node dist/bench/loops.js [--seed 7] [--random 6] [--rounds 3] [--out FILE]
 */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const KTL = fileURLToPath(new URL('ktl.js', import.meta.url))
const LORA = fileURLToPath(new URL('../../samples/lora.ktl', import.meta.url))

const { values: options } = parseArgs({
  options: {
    seed: { type: 'string', default: '7' },
    random: { type: 'string', default: '6' },
    rounds: { type: 'string', default: '3' },
    out: { type: 'string' },
  },
})

interface Shape {
  readonly m: number
  readonly n: number
  readonly k: number
}

/** Multiples of 64 between 1024 and 8192, log-uniform. */
function randomShapes(count: number, seed: number): Shape[] {
  let state = seed >>> 0
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
  const extent = (): number => 64 * Math.round(16 * 2 ** (3 * next()))
  return Array.from({ length: count }, () => ({ m: extent(), n: extent(), k: extent() }))
}

/** Microseconds of the fastest of the first 8 kernels; null: nothing ran. */
function time(args: readonly string[]): { readonly microseconds: number; readonly kernel: string } | null {
  const ended = spawnSync(process.execPath, [KTL, 'bench', ...args, '--device', 'cuda', '--top', '8', '--json'], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  })
  const lines = ended.stdout.split('\n').filter((line) => line !== '')
  const rows = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  const times = rows.flatMap((row) => {
    const microseconds = (row['microseconds'] ?? (row['milliseconds'] as number | undefined)! * 1000) as number
    const kernel = row['instance'] as string
    return Number.isFinite(microseconds) && kernel ? [{ microseconds, kernel }] : []
  })
  if (times.length === 0) process.stderr.write(`${args.join(' ')}: ${ended.stderr.slice(0, 600)}\n`)
  return times.sort((a, b) => a.microseconds - b.microseconds)[0] ?? null
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN
const dims = (extents: object): string =>
  Object.entries(extents)
    .map(([axis, extent]) => `${axis}=${extent}`)
    .join(',')

const RANKS = [16, 32, 64] as const
const shapes = [{ m: 4096, n: 4096, k: 4096 }, ...randomShapes(Number(options.random), Number(options.seed))]
const lines: string[] = [
  `bf16, W and U as n x k, normal inputs, cold L2; random shapes of seed ${options.seed}; medians of ${options.rounds} rounds, each the fastest of 8 kernels`,
  `${'m x n x k'.padEnd(18)} ${'plain us'.padStart(9)} ${RANKS.map((r) => `+ r = ${r}`.padStart(9)).join(' ')}   ratio to plain`,
]
const ratios: number[] = []
for (const shape of shapes) {
  const plain: number[] = []
  const updated = RANKS.map((): number[] => [])
  for (let round = 0; round < Number(options.rounds); round++) {
    const base = time(['--dims', dims(shape), '--type', 'A=bf16', '--order', 'B=nk'])
    if (base) plain.push(base.microseconds)
    for (const [i, r] of RANKS.entries()) {
      const found = time([
        LORA,
        '--kernel',
        'lora',
        '--type',
        'T=bf16',
        '--order',
        'W=nk,U=nr',
        '--dims',
        dims({ ...shape, r }),
      ])
      if (found) updated[i]!.push(found.microseconds)
    }
  }
  const base = median(plain)
  const times = updated.map(median)
  ratios.push(...times.map((t) => t / base))
  lines.push(
    `${`${shape.m}x${shape.n}x${shape.k}`.padEnd(18)} ${base.toFixed(1).padStart(9)} ${times.map((t) => t.toFixed(1).padStart(9)).join(' ')}   ${times.map((t) => (t / base).toFixed(3)).join(' ')}`,
  )
  process.stderr.write(`${lines.at(-1)!}\n`)
}
const known = ratios.filter(Number.isFinite)
lines.push(
  `geometric mean ${Math.exp(known.reduce((sum, x) => sum + Math.log(x), 0) / known.length).toFixed(3)}, worst ${Math.max(...known).toFixed(3)}`,
)
const text = `${lines.join('\n')}\n`
process.stdout.write(text)
if (options.out) writeFileSync(options.out, text)
