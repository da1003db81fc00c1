/**
 * The synchronisation of a kernel as PTX text has it, and how each piece of it can be broken: one instruction is
 * edited at a time, everything else stays as nvcc wrote it.
 */
import type { KernelSources } from '../../runtime/addon/findings.ts'
import { entryAt } from '../../runtime/addon/findings.ts'

export type SiteClass =
  | 'wait'
  | 'expect_tx'
  | 'arrive'
  | 'commit'
  | 'init'
  | 'wgmma wait'
  | 'wgmma fence'
  | 'wgmma commit'
  | 'tmem wait'
  | 'tmem fence'
  | 'tmem lifetime'
  | 'proxy fence'
  | 'init fence'
  | 'cta barrier'
  | 'warp barrier'
  | 'bulk wait'
  | 'bulk commit'
  | 'grid dependency'
  | 'parts of k'

export interface Mutant {
  readonly class: SiteClass
  /** What was done: `removed`, `never waits`, `half the bytes` … */
  readonly change: string
  /** Opcode with its modifiers. */
  readonly instruction: string
  /** 1-based. */
  readonly ptxLine: number
  readonly cudaLine: number
  /** From the source map; null outside the roles. */
  readonly role: string | null
  readonly note: string | null
  /** The whole module with the one change. */
  readonly ptx: string
}

/** An instruction as it stands in the text; `operands` as written, between the opcode and the semicolon. */
interface Statement {
  readonly opcode: string
  readonly operands: string
  readonly guard: string
}

interface Change {
  readonly change: string
  /** PTX in place of the statement. */
  readonly edit: (statement: Statement) => string
}

interface Rule {
  readonly class: SiteClass
  readonly opcode: RegExp
  readonly changes: readonly Change[]
}

const REMOVED: Change = { change: 'removed', edit: () => '' }

/** `p, [address], parity`: the predicate of a wait. */
const predicateOf = ({ operands }: Statement): string => operands.split(',')[0]!.trim()

/** `_, [address], bytes` with another byte count; the register is local to a block of its own. */
const scaledBytes = (instruction: string): ((statement: Statement) => string) => {
  return ({ guard, opcode, operands }) => {
    const at = operands.lastIndexOf(',')
    const bytes = operands.slice(at + 1).trim()
    return `{ .reg .b32 mutated; ${instruction.replace('BYTES', bytes)} ${guard}${opcode} ${operands.slice(0, at)}, mutated; }`
  }
}

/** First match wins, so the narrow patterns stand first. */
const RULES: readonly Rule[] = [
  {
    class: 'wait',
    opcode: /^mbarrier\.(try|test)_wait\./,
    changes: [
      { change: 'never waits', edit: (s) => `setp.eq.u32 ${predicateOf(s)}, 0, 0;` },
      // try_wait may give up before the phase completes (PTX ISA 9.7.13.15.16): without its loop it is no wait.
      { change: 'tries once', edit: (s) => `${s.opcode} ${s.operands}; setp.eq.u32 ${predicateOf(s)}, 0, 0;` },
    ],
  },
  {
    class: 'expect_tx',
    opcode: /^mbarrier\.(arrive|arrive_drop)\.expect_tx\./,
    changes: [
      {
        change: 'plain arrive',
        edit: ({ guard, opcode, operands }) =>
          `${guard}${opcode.replace('.expect_tx', '')} ${operands.slice(0, operands.lastIndexOf(','))};`,
      },
      { change: 'half the bytes', edit: scaledBytes('shr.u32 mutated, BYTES, 1;') },
      { change: 'twice the bytes', edit: scaledBytes('shl.b32 mutated, BYTES, 1;') },
      REMOVED,
    ],
  },
  { class: 'expect_tx', opcode: /^mbarrier\.expect_tx\./, changes: [REMOVED] },
  { class: 'arrive', opcode: /^mbarrier\.(arrive|arrive_drop|complete_tx)\b/, changes: [REMOVED] },
  { class: 'arrive', opcode: /^cp\.async\.mbarrier\.arrive/, changes: [REMOVED] },
  { class: 'init', opcode: /^mbarrier\.init\./, changes: [REMOVED] },
  { class: 'commit', opcode: /^tcgen05\.commit\./, changes: [REMOVED] },
  { class: 'wgmma wait', opcode: /^wgmma\.wait_group/, changes: [REMOVED] },
  { class: 'wgmma fence', opcode: /^wgmma\.fence/, changes: [REMOVED] },
  { class: 'wgmma commit', opcode: /^wgmma\.commit_group/, changes: [REMOVED] },
  { class: 'tmem wait', opcode: /^tcgen05\.wait::/, changes: [REMOVED] },
  { class: 'tmem fence', opcode: /^tcgen05\.fence::/, changes: [REMOVED] },
  { class: 'tmem lifetime', opcode: /^tcgen05\.(dealloc|relinquish_alloc_permit)\./, changes: [REMOVED] },
  { class: 'proxy fence', opcode: /^fence\.proxy\./, changes: [REMOVED] },
  { class: 'init fence', opcode: /^fence\.mbarrier_init\./, changes: [REMOVED] },
  { class: 'cta barrier', opcode: /^(bar|barrier)\.(cta\.)?(sync|arrive|red)/, changes: [REMOVED] },
  { class: 'cta barrier', opcode: /^barrier\.cluster\./, changes: [REMOVED] },
  { class: 'warp barrier', opcode: /^bar\.warp\.sync/, changes: [REMOVED] },
  { class: 'bulk wait', opcode: /^cp\.async\.(bulk\.)?wait_(group|all)/, changes: [REMOVED] },
  { class: 'bulk commit', opcode: /^cp\.async\.(bulk\.)?commit_group/, changes: [REMOVED] },
  { class: 'grid dependency', opcode: /^griddepcontrol\./, changes: [REMOVED] },
  {
    class: 'parts of k',
    opcode: /^ld\.acquire\.gpu\./,
    changes: [{ change: 'never waits', edit: ({ operands }) => `mov.u32 ${operands.split(',')[0]!}, 0x7fffffff;` }],
  },
]

const STATEMENT = /^(\s*)(@!?%?\w+\s+)?([a-z][\w.:]*)\s*([^;]*);/

/** Every mutant of a module, in text order. `sources` names roles. */
export function mutantsOf(ptx: string, sources?: KernelSources): Mutant[] {
  const lines = ptx.split('\n')
  const mutants: Mutant[] = []
  let cudaLine = 0
  lines.forEach((line, index) => {
    cudaLine = lineOf(line) ?? cudaLine
    const match = STATEMENT.exec(line)
    if (!match) return
    const [text, indent, guard = '', opcode, operands] = match as unknown as [string, string, string | undefined, string, string] // prettier-ignore
    const rule = RULES.find((candidate) => candidate.opcode.test(opcode))
    if (!rule) return
    const entry = entryAt(sources?.map ?? [], cudaLine)
    for (const { change, edit } of rule.changes) {
      const edited = `${indent}${edit({ guard, opcode, operands })}${line.slice(text.length)}`
      mutants.push({
        class: rule.class,
        change,
        instruction: opcode,
        ptxLine: index + 1,
        cudaLine,
        role: entry?.role ?? null,
        note: entry?.note ?? null,
        ptx: [...lines.slice(0, index), edited, ...lines.slice(index + 1)].join('\n'),
      })
    }
  })
  return mutants
}

/** The line of the kernel's own text: for inlined functions, where they were called. */
function lineOf(line: string): number | null {
  const match = /^\s*\.loc\s+\d+\s+(\d+)\s+\d+(?:.*\binlined_at\s+\d+\s+(\d+))?/.exec(line)
  return match ? Number(match[2] ?? match[1]) : null
}
