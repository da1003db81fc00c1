/**
 * How many mistakes in pipeline programs the verifier notices, and how many the virtual device: each operation of a few kernels is deleted,
 * doubled and swapped with the one behind it, and each field changed, one at a time. What the verifier misses goes through nvcc and onto
 * the device, and so does a random sample of all, for the device's own share.
 *
 *   npx tsx bench/verify.ts [--kernel NAME]… [--sample N] [--seed N] [--missed N] [--out FILE]
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { pipelineOf, planInstance } from '../codegen/index.ts'
import { uniform } from '../compiler/evaluate/generate.ts'
import { formatTable } from '../runtime/bench/table.ts'
import { GOLDEN_CASES } from '../test/codegen/golden_cases.ts'
import { KERNELS, type MutatedKernel } from './mutation/kernels.ts'
import { deviceOf, workloadsOf } from './mutation/run.ts'
import { notice, ptxOf, type Noticed } from './verify/device.ts'
import { FieldValues } from './verify/fields.ts'
import { CHANGE_KINDS, mutantsOf, type Mutant } from './verify/mutants.ts'
import { reasonOf } from './verify/reasons.ts'

const { values: options } = parseArgs({
  options: {
    kernel: { type: 'string', multiple: true },
    /** Mutants for the device's share. */
    sample: { type: 'string', default: '300' },
    seed: { type: 'string', default: '1' },
    /** Most mutants that the verifier misses and the device runs. */
    missed: { type: 'string', default: '100000' },
    out: { type: 'string' },
  },
})
const [sample, seed, missed] = [Number(options.sample), Number(options.seed), Number(options.missed)]
const unknown = options.kernel?.find((name) => !KERNELS.some((kernel) => kernel.name === name))
if (unknown !== undefined || ![sample, seed, missed].every((n) => Number.isInteger(n) && n >= 0)) {
  console.error(unknown === undefined ? '--sample, --seed and --missed take whole numbers' : `no kernel '${unknown}'`)
  process.exit(2)
}

interface Judged extends Mutant {
  readonly kernel: string
  readonly sampled: boolean
  /** undefined: it was not run. */
  device?: Noticed | null
}

/** What fields can hold, other programs show, too. */
const values = new FieldValues(
  GOLDEN_CASES.flatMap(({ instance }) => {
    const plan = planInstance(instance())
    return ('kind' in plan && pipelineOf(plan)) || []
  }),
)

const all: Judged[] = []
for (const kernel of KERNELS.filter(({ name }) => options.kernel?.includes(name) ?? true))
  all.push(...(await judge(kernel)))
const report = reportOf(all)
process.stdout.write(report)
if (options.out !== undefined) writeFileSync(options.out, report)

async function judge(kernel: MutatedKernel): Promise<Judged[]> {
  const started = performance.now()
  const device = await deviceOf(kernel)
  try {
    const workloads = await workloadsOf(device, kernel)
    if (workloads === null) throw new Error(`no such instance in the space: ${kernel.name}`)
    const { plan, metadata } = workloads[0]!.kernel
    const random = uniform(seed)
    const share = sample / (options.kernel?.length ?? KERNELS.length)
    const mutants = [...mutantsOf(pipelineOf(plan)!, metadata.kernelName, values)]
    const real = mutants.filter(({ text }) => text === 'changed' || text === 'none')
    const chosen = new Set(shuffled(real, random).slice(0, Math.ceil(share)))
    const judged: Judged[] = mutants.map((mutant) => ({ ...mutant, kernel: kernel.name, sampled: chosen.has(mutant) }))
    const misses = judged.filter(({ text, problems }) => text === 'changed' && problems.length === 0)
    const run = new Set([...shuffled(misses, random).slice(0, missed), ...judged.filter(({ sampled }) => sampled)])
    // Mutants of one text are one.
    const groups = grouped(
      [...run].filter(({ text }) => text === 'changed'),
      ({ code }) => code,
    ).map(([, group]) => group)
    const compile = (at: number) => groups[at] && ptxOf(groups[at][0]!.print(), device.arch)
    let next = compile(0)
    for (const [i, group] of groups.entries()) {
      const ptx = await next!
      // While it runs, nvcc has the one behind it.
      next = compile(i + 1)
      const device = ptx instanceof Uint8Array ? await notice(workloads, group[0]!.print(), ptx) : ptx
      for (const mutant of group) mutant.device = device
      if (i % 10 === 0) process.stderr.write(`\r${kernel.name}: ${i} of ${groups.length} texts on the device  `)
    }
    for (const mutant of judged) if (mutant.text === 'none') mutant.device = { by: 'printer', message: 'cannot be printed' }
    process.stderr.write(`\r${kernel.name}: ${judged.length} mutants, ${groups.length} texts on the device, ${((performance.now() - started) / 1000).toFixed(0)} s\n`)
    return judged
  } finally {
    await device.close()
  }
} // prettier-ignore

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const copy = [...items]
  for (let i = copy.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[copy[i], copy[j]] = [copy[j]!, copy[i]!]
  }
  return copy
}

function percent(part: number, whole: number): string {
  return whole === 0 ? '-' : `${((100 * part) / whole).toFixed(1)} %`
}

function reportOf(mutants: readonly Judged[]): string {
  const real = mutants.filter(({ text }) => text === 'changed' || text === 'none')
  const verified = (m: Judged): boolean => m.problems.length > 0
  const seen = (m: Judged): boolean => m.device !== undefined && m.device !== null
  const either = (m: Judged): boolean => verified(m) || seen(m)
  const reasons = new Map(real.filter((m) => !either(m)).map((m) => [m, reasonOf(m)] as const))
  const equivalent = (m: Judged): boolean => typeof reasons.get(m) === 'string'
  const lines: string[] = []
  const add = (text = ''): void => void lines.push(text)
  const table = (head: readonly string[], rows: readonly (readonly string[])[]): void => add(`${formatTable(head, rows)}\n`)

  const kernels = [...new Set(mutants.map(({ kernel }) => kernel))]
  add(`Pipeline programs of ${kernels.length} kernels: each operation deleted, doubled, swapped with the one behind it; each field changed.`)
  add(`Repeat: npx tsx bench/verify.ts --sample ${sample} --seed ${seed}\n`)
  const unrun = real.filter((m) => !verified(m) && m.device === undefined).length
  add(`${mutants.length} mutants. ${mutants.filter(({ text }) => text === 'same').length} have the same CUDA text and recipe, ${mutants.filter(({ text }) => text === 'comments').length} others the same code under other comments;`)
  add(`of the ${real.length} that are left, everything that the verifier misses was run on the virtual device${unrun > 0 ? ` but ${unrun}` : ''}, and ${real.filter(({ sampled }) => sampled).length} of all at random.\n`)

  const row = (name: string, of: readonly Judged[]): string[] => {
    const sampled = of.filter(({ sampled, device }) => sampled && device !== undefined)
    const distinct = of.filter((m) => !equivalent(m))
    return [name, `${of.length}`, percent(of.filter(verified).length, of.length), `${percent(sampled.filter(seen).length, sampled.length)} of ${sampled.length}`, percent(of.filter(either).length, of.length), `${of.length - distinct.length}`, `${of.filter((m) => !either(m) && !equivalent(m)).length}`, percent(distinct.filter(verified).length, distinct.length), percent(distinct.filter(either).length, distinct.length)]
  }
  const head = ['', 'mutants', 'verifier', 'device (sample)', 'either', 'equivalent', 'survive', 'verifier, without equivalent', 'either, without equivalent']
  table(['change', ...head.slice(1)], [...CHANGE_KINDS.map((kind) => row(kind, real.filter((m) => m.kind === kind))), row('all', real)])
  table(['kernel', ...head.slice(1)], kernels.map((kernel) => row(kernel, real.filter((m) => m.kernel === kernel))))

  const by = new Map<string, number>()
  for (const m of real) if (m.sampled && m.device) by.set(m.device.by, (by.get(m.device.by) ?? 0) + 1)
  add('What notices on the device, of the sample (values: wrong results, without a finding):\n')
  table(['by', 'mutants'], [...by].sort((x, y) => y[1] - x[1]).map(([name, n]) => [name, `${n}`]))

  const missedBoth = grouped(real.filter((m) => m.device !== undefined && !either(m) && !equivalent(m)), ({ kind, subject }) => `${kind}\t${subject}`)
  add('Survivors that nothing explains:\n')
  if (missedBoth.length === 0) add('none\n')
  else table(['change', 'of', 'mutants', 'first'], missedBoth.map(([key, of]) => [...key.split('\t'), `${of.length}`, `${of[0]!.kernel}: ${of[0]!.place}`]))

  add('Equivalent: noticed by neither, and why:\n')
  const explained = grouped([...reasons].filter(([, reason]) => reason !== null).map(([m]) => m), (m) => `${reasons.get(m)}`)
  table(['why', 'mutants', 'of'], explained.map(([reason, of]) => [reason, `${of.length}`, subjects(of)]))

  add('What the device notices alone:\n')
  const alone = grouped(real.filter((m) => !verified(m) && seen(m)), ({ kind, subject, device }) => `${kind}\t${subject}\t${device!.by}`)
  table(['change', 'of', 'by', 'mutants', 'first'], alone.map(([key, of]) => [...key.split('\t'), `${of.length}`, `${of[0]!.kernel}: ${of[0]!.place}`]))

  add('The same text: fields that are informational in these kernels\n')
  const same = grouped(mutants.filter(({ text }) => text === 'same'), ({ kind, subject }) => `${kind}\t${subject}`)
  table(['change', 'of', 'mutants', 'verifier notices'], same.map(([key, of]) => [...key.split('\t'), `${of.length}`, `${of.filter(verified).length}`]))
  return `${lines.join('\n')}\n`
} // prettier-ignore

/** By key, the largest groups first. */
function grouped<T>(items: readonly T[], key: (item: T) => string): [string, T[]][] {
  const groups = new Map<string, T[]>()
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item])
  return [...groups].sort(([, a], [, b]) => b.length - a.length)
}

function subjects(mutants: readonly Judged[]): string {
  const counts = grouped(mutants, ({ kind, subject }) => (kind === 'field' ? subject : `${kind} ${subject}`))
  return counts.map(([name, of]) => `${name} ${of.length}`).join(', ')
}
