/** PTX of the samples for the page: of each kernel and target the instance that the page runs, and its traced build. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { deflateRawSync } from 'node:zlib'
import { generateTraced } from '../../codegen/index.ts'
import type { KernelFamily } from '../../compiler/family.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import { KtlError } from '../../grammar/diagnostics.ts'
import { loadSource } from '../../runtime/programs/program.ts'
import { compileCached } from '../../runtime/toolchain/cached.ts'
import { instanceOf, ptxFile, RUN_TARGETS } from './choose.ts'
import type { PreparedPtx } from './prepared.ts'

export interface Text {
  readonly name: string
  readonly arch: TargetArch
  readonly cuda: string
}

/** All that the page may ask for: kernels that a target does not have, and those without roles, have fewer. */
export function* textsOf(family: KernelFamily): Generator<Text> {
  for (const arch of RUN_TARGETS) {
    const name = `${family.name}.cu`
    const plain = unlessMissing(() => instanceOf(family, arch).generated.cuda)
    if (plain !== null) yield { name, arch, cuda: plain }
    const traced = unlessMissing(() => {
      const { plan, name: instance } = instanceOf(family, arch, { withRoles: true })
      return generateTraced(plan, instance)?.cuda ?? null
    })
    if (traced !== null) yield { name, arch, cuda: traced }
  }
}

function unlessMissing<A>(make: () => A): A | null {
  try {
    return make()
  } catch (error) {
    if (error instanceof KtlError && error.code === 'KTL4107') return null
    throw error
  }
}

export const familiesOf = (samples: string): KernelFamily[] =>
  readdirSync(samples)
    .filter((name) => name.endsWith('.ktl'))
    .sort()
    .flatMap((name) =>
      Object.values(loadSource({ name, text: readFileSync(path.join(samples, name), 'utf8') }).kernels),
    )
    .map(({ family }) => family)

/** KTL6001 without nvcc. `note` is told how far it is. */
export async function writePtx(samples: string, folder: string, note: (text: string) => void): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const files = new Set<string>()
  let nvccVersion = ''
  for (const family of familiesOf(samples)) {
    note(`PTX of ${family.name}`)
    for (const { cuda, ...options } of textsOf(family)) {
      const { image, nvccVersion: version } = await compileCached(cuda, { ...options, kind: 'ptx' })
      const file = ptxFile(cuda, options.arch)
      writeFileSync(path.join(folder, file), deflateRawSync(image, { level: 9 }))
      files.add(file)
      nvccVersion = version
    }
  }
  const index: PreparedPtx = { nvccVersion, files: [...files] }
  writeFileSync(path.join(folder, 'index.json'), JSON.stringify(index))
}
