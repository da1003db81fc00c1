/** The gallery of samples, from the samples themselves: `npx tsx docs/gallery.ts` writes gallery.md; a test checks that it is up to date. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = path.join(import.meta.dirname, '..')
export const GALLERY = path.join(ROOT, 'docs/gallery.md')

interface Section {
  readonly title: string
  /** What is said of operands and equations, in a sentence. */
  readonly says: string
  /** Files of samples/, without `.ktl`. */
  readonly samples: readonly string[]
}

export const SECTIONS: readonly Section[] = [
  {
    title: 'Products and epilogues',
    says: 'Operands with named axes, an equation, and whatever is computed from the sum before it is stored.',
    samples: ['gemm', 'linear', 'residual', 'swiglu', 'lora', 'dgemm', 'elementwise'],
  },
  {
    title: 'How an operand is stored',
    says: 'Data with scales, zero points and global scales, on the way in and on the way out.',
    samples: ['scaled'],
  },
  {
    title: 'Where an operand is read',
    says: 'One index expression for each axis: convolution, gathered rows, pages, masks.',
    samples: ['conv2d', 'rows', 'paged'],
  },
  {
    title: 'Which axis is ragged',
    says: 'Groups of different length in one tensor, their ends read by the kernel.',
    samples: ['grouped'],
  },
  {
    title: 'Operands that are expressions',
    says: 'Factors of a product are computed on the way to it.',
    samples: ['norm_gemm'],
  },
  {
    title: 'Reductions that are used again',
    says: 'Statistics of rows, softmax, attention.',
    samples: ['norms', 'attention'],
  },
]

/** Names of all samples, in order. */
export const samplesOf = (): string[] =>
  readdirSync(path.join(ROOT, 'samples'))
    .filter((name) => name.endsWith('.ktl'))
    .map((name) => path.basename(name, '.ktl'))
    .sort()

export function gallery(): string {
  const parts = SECTIONS.map(({ title, says, samples }) => {
    const texts = samples.map((name) => {
      const text = readFileSync(path.join(ROOT, `samples/${name}.ktl`), 'utf8').trimEnd()
      return `[\`samples/${name}.ktl\`](../samples/${name}.ktl), used by [\`${name}.ts\`](../samples/${name}.ts):\n\n\`\`\`ktl\n${text}\n\`\`\`\n`
    })
    return `## ${title}\n\n${says}\n\n${texts.join('\n')}`
  })
  return `# Gallery

Every kernel here is checked, run and compared with the reference evaluator by the tests. \`npx ktl run samples/NAME.ktl --dims …\` does the
same on the command line; \`npx ktl check samples/NAME.ktl\` says where it runs on tensor cores. Made by \`npx tsx docs/gallery.ts\`.

${parts.join('\n')}`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(GALLERY, gallery())
