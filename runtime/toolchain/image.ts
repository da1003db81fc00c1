/** What a compiler has written is looked at before anybody keeps it: an exit status of 0 is no proof. */
import { didNotFinish } from './diagnose.ts'
import type { CompileOptions } from './options.ts'

/** KTL6003 for what is no PTX or no machine code, or lacks a kernel of `entries`. `output` is what the compiler printed. */
export function checkImage(
  image: Uint8Array,
  { kind, entries = [] }: Pick<CompileOptions, 'kind' | 'entries'>,
  output: string,
): void {
  const bytes = Buffer.from(image.buffer, image.byteOffset, image.byteLength)
  const isImage = kind === 'ptx' ? isPtx(bytes) : bytes.indexOf('\x7fELF', 0, 'latin1') === 0
  if (!isImage)
    throw didNotFinish(`succeeded, but what it wrote is no ${kind === 'ptx' ? 'PTX' : 'cubin'}`, output.trim())
  const missing = entries.find((name) => !hasEntry(bytes, kind, name))
  if (missing !== undefined)
    throw didNotFinish(`succeeded, but what it wrote has no kernel \`${missing}\``, output.trim())
}

const isPtx = (bytes: Buffer): boolean =>
  /^\s*\.version\s+\d[\s\S]*?^\s*\.target\s+sm_\d/m.test(bytes.toString('latin1'))

/** Machine code has a section for each kernel, by name. */
function hasEntry(bytes: Buffer, kind: CompileOptions['kind'], name: string): boolean {
  if (kind === 'cubin') return bytes.includes(`.text.${name}\0`)
  return new RegExp(`\\.entry\\s+${name.replaceAll('$', '\\$')}\\s*\\(`).test(bytes.toString('latin1'))
}
