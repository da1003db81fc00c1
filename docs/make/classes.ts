/** Which kernel runs where: what `ktl check` says of samples, of the library, and of operands by dtype and stored form. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { ARCH_NAMES, type TargetArch } from '../../compiler/archs.ts'
import { legalContraction } from '../../compiler/dtypes.ts'
import type { TypeChoice } from '../../compiler/family.ts'
import { isRejection } from '../../compiler/rejection.ts'
import { ktlProvider } from '../../runtime/discovery/providers/provider.ts'
import type { FamilySpace } from '../../runtime/discovery/space/space.ts'
import { librarySources } from '../../runtime/library/index.ts'
import { loadSource } from '../../runtime/programs/program.ts'
import { isGeneral, offTensorCores } from '../../compiler/targets/index.ts'
import { DTYPE_NAMES } from '../../grammar/vocabulary.ts'
import { SECTIONS } from '../gallery.ts'
import { code, made, prose, table } from './markdown.ts'

const ROOT = path.join(import.meta.dirname, '../..')
const YES = 'tensor cores'

/** Forms of stored operands and results. */
const FORMS: readonly (readonly [what: string, a: string, b: string, out: string])[] = [
  ['mxfp8', 'e4m3[m, k] * ue8m0[m, k/32]', 'e4m3[n, k] * ue8m0[n, k/32]', 'bf16[m, n]'],
  ['mxfp8, e5m2', 'e5m2[m, k] * ue8m0[m, k/32]', 'e4m3[n, k] * ue8m0[n, k/32]', 'bf16[m, n]'],
  ['mxfp6', 'e3m2[m, k] * ue8m0[m, k/32]', 'e2m3[n, k] * ue8m0[n, k/32]', 'bf16[m, n]'],
  ['mxfp4', 'e2m1[m, k] * ue8m0[m, k/32]', 'e2m1[n, k] * ue8m0[n, k/32]', 'bf16[m, n]'],
  ['nvfp4', 'e2m1[m, k] * ue4m3[m, k/16] * f32', 'e2m1[n, k] * ue4m3[n, k/16] * f32', 'bf16[m, n]'],
  ['fp8, one scale a row', 'e4m3[m, k] * f32[m]', 'e4m3[n, k] * f32[n]', 'bf16[m, n]'],
  ['fp8, 1 x 128 by 128 x 128', 'e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n/128, k/128]', 'bf16[m, n]'],
  ['fp8, 1 x 128 by 1 x 128', 'e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n, k/128]', 'bf16[m, n]'],
  ['i8, one scale a row', 'i8[m, k] * f32[m]', 'i8[n, k] * f32[n]', 'bf16[m, n]'],
  ['i4 weights', 'bf16[m, k]', 'i4[n, k] * bf16[n, k/64]', 'bf16[m, n]'],
  ['u4 weights with zero points', 'f16[m, k]', '(u4[k, n] - u4[k/128, n]) * f16[k/128, n]', 'f16[m, n]'],
  ['fp8 weights', 'bf16[m, k]', 'e4m3[n, k] * f32[n]', 'bf16[m, n]'],
  ['stores mxfp8', 'bf16[m, k]', 'bf16[n, k]', 'e4m3[m, n] * ue8m0[m, n/32]'],
  ['stores mxfp6', 'bf16[m, k]', 'bf16[n, k]', 'e3m2[m, n] * ue8m0[m, n/32]'],
  ['stores nvfp4', 'bf16[m, k]', 'bf16[n, k]', 'e2m1[m, n] * ue4m3[m, n/16] * f32'],
  ['stores fp8, 1 x 128', 'bf16[m, k]', 'bf16[n, k]', 'e4m3[m, n] * f32[m, n/128]'],
  ['stores i8, 1 x 128', 'bf16[m, k]', 'bf16[n, k]', 'i8[m, n] * f32[m, n/128]'],
]

type Fares = ReturnType<FamilySpace['fares']>

const hasTensorCores = (fares: Fares): boolean =>
  fares.some(
    ({ backend, first }) => !isGeneral(backend) && first !== null && !isRejection(first) && !offTensorCores(first),
  )

/** Has it instances on tensor cores, in some order of its operands? */
function onTensorCores(space: FamilySpace, target: TargetArch, types: TypeChoice): boolean {
  for (const orders of space.orderChoices(types)) if (hasTensorCores(space.fares(target, types, orders))) return true
  return false
}

/** How the choices of types fare on a target. `reasons` collects why some are on no tensor cores. */
function cellOf(space: FamilySpace, target: TargetArch, reasons: Set<string>): string {
  const { typeChoices } = space.family
  let [off, cores] = [0, 'refused']
  for (const types of typeChoices) {
    const logical = space.fares(target, types)
    if (hasTensorCores(logical) || onTensorCores(space, target, types)) continue
    off++
    const [refused] = logical.flatMap(
      ({ first }) => (first && (isRejection(first) ? first : offTensorCores(first))) ?? [],
    )
    if (logical.some(({ first }) => first && !isRejection(first))) cores = 'CUDA cores'
    if (refused) reasons.add(`${prose(refused.reason)} (${refused.code})`)
  }
  if (off === 0) return YES
  const on = typeChoices.length - off
  return on === 0 ? cores : `${YES} for ${on} of ${typeChoices.length} choices of types, else ${cores}`
}

/** A cell for each target, and the reasons. */
function cellsOf(space: FamilySpace): readonly string[] {
  const reasons = new Set<string>()
  const cells = ARCH_NAMES.map((arch) => cellOf(space, arch, reasons))
  const [first, second, ...more] = reasons
  return [...cells, [first, second, more.length > 0 ? '…' : undefined].filter((text) => text !== undefined).join('; ')]
}

const rowsOf = (source: { readonly name: string; readonly text: string }): (readonly [string, readonly string[]])[] =>
  Object.entries(loadSource(source).kernels).map(([name, { family }]) => [name, cellsOf(ktlProvider.spaceOf(family))])

const ofText = (text: string): readonly string[] => rowsOf({ name: 'form.ktl', text })[0]![1]

/** Operand pairs that MMAs take as they are, with their accumulators. */
function pairs(): string[][] {
  const distinct = DTYPE_NAMES.flatMap((a, i) => DTYPE_NAMES.slice(i).map((b) => [a, b] as const))
  return distinct.flatMap(([a, b]) =>
    (legalContraction(a, b) ?? []).map((sum) => {
      const text = `kernel f(A: ${a}[m, k], B: ${b}[n, k]) -> D: f32[m, n] {\n  acc: ${sum} = sum[k](A * B)\n  D = f32(acc)\n}`
      return [`${code(a)} · ${code(b)}`, code(sum), ...ofText(text)]
    }),
  )
}

export function classes(): string {
  const head = (...first: string[]): string[] => [...first, ...ARCH_NAMES.map(code), 'why not tensor cores']
  const samples = SECTIONS.map(({ title, says, samples: names }) => {
    const rows = names.flatMap((name) => {
      const file = `samples/${name}.ktl`
      const source = { name: file, text: readFileSync(path.join(ROOT, file), 'utf8') }
      return rowsOf(source).map(([kernel, on]) => [`[${kernel}](../../${file})`, ...on])
    })
    return `### ${title}\n\n${says}\n\n${table(head('kernel'), rows)}`
  })
  const forms = FORMS.map(([what, a, b, out]) => [
    what,
    [a, b].map(code).join(' · ') + (out.includes('*') ? ` → ${code(out)}` : ''),
    ...ofText(`kernel f(A: ${a}, B: ${b}) -> D: ${out} { D = sum[k](A * B) }`),
  ])
  const library = librarySources().flatMap((source) =>
    rowsOf(source).map(([kernel, on]) => [`[${kernel}](../../runtime/${source.name})`, ...on]),
  )
  return `# Kernel classes and targets

Whether a kernel has instances on tensor cores, for every target that code is generated for, with operands aligned, and in the declared orders
that suit the target best. Every kernel that checks has one on CUDA cores at least, on every device. \`npx ktl check FILE\` says it for operands
in their first orders, \`kernel.supports(args)\` and \`ktl run\` for a call. ${made}

GPUs of compute capability 8.0 to 8.9 and 12.0 run the code of \`sm_80\`; \`sm_90a\` is Hopper, \`sm_100a\` and \`sm_103a\` are Blackwell. What has run
on hardware, and what on virtual devices alone: [performance](../performance.md#measured-and-modelled).

## Samples

${samples.join('\n\n')}

## Stored forms

${table(head('form', 'operands'), forms)}

## Operands as they are

Both along k in memory, the result f32. Other pairs are multiplied in a common type.

${table(head('operands', 'sums'), pairs())}

## The library

${table(head('kernel'), library)}
`
}
