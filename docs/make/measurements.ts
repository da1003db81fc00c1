/** What has been measured, file by file: the reports in bench/results as they are, and on what. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { block, code, made, prose } from './markdown.ts'

const RESULTS = path.join(import.meta.dirname, '../../bench/results')

/** Reports that are shown in full, by what they were measured on. */
const SHOWN = [
  {
    title: 'Measured on GPUs',
    says: 'Times are of the GPU, by events, behind an overwritten L2.',
    files: ['h100_vs_cublas', 'scaled_h200', 'loops_h200', 'forms_h200', 'launch_h100', 'h100_profile'],
  },
  {
    title: 'Compared with GPUs',
    says: 'No times: the bytes that launches leave, and the accuracy of functions.',
    files: ['virtual_vs_h100', 'ops_sweep_h200'],
  },
  {
    title: 'Measured on the host',
    says: 'What compiler, discovery and virtual device cost on a machine without a GPU. It says nothing about GPUs; ranking compares two models.',
    files: ['virtual_2core', 'lsp', 'filter', 'ptxas_sample', 'pairwise', 'fuzz_ptx'],
  },
] as const

const textOf = (name: string): string => readFileSync(path.join(RESULTS, `${name}.txt`), 'utf8')
const linkTo = (name: string): string => `[${name}.txt](../../bench/results/${name}.txt)`

export function measurements(): string {
  const sections = SHOWN.map(({ title, says, files }) => {
    const shown = files.map((name) => `### ${name}\n\n${linkTo(name)}\n\n${block('txt', textOf(name))}`)
    return `## ${title}\n\n${says}\n\n${shown.join('\n\n')}`
  })
  const known = new Set<string>(SHOWN.flatMap(({ files }) => files))
  const names = readdirSync(RESULTS).filter((name) => name.endsWith('.txt')).map((name) => path.basename(name, '.txt')) // prettier-ignore
  const others = names.filter((name) => !known.has(name)).map((name) => `- ${linkTo(name)}: ${prose(textOf(name).split('\n')[0]!.slice(0, 140))}`) // prettier-ignore
  return `# Measurements

The reports of ${code('bench/results')}, as they are. [Performance](../performance.md) says how they were made, [bench/README.md](../../bench/README.md)
how to repeat them. ${made}

${sections.join('\n\n')}

## Others

${others.join('\n')}
`
}
