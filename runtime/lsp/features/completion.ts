/** Completion by where the cursor stands, which the tokens before it say: a text that is being written has no whole tree. */
import { CompletionItemKind, InsertTextFormat, type CompletionItem } from 'vscode-languageserver'
import { TARGETS } from '../../../compiler/targets/index.ts'
import type { Item } from '../../../grammar/ast.ts'
import * as T from '../../../grammar/tokens.ts'
import { DTYPE_NAMES, LITERAL_NAMES } from '../../../grammar/vocabulary.ts'
import type { Analysis } from '../analysis.ts'
import type { Declared, Role } from '../bindings.ts'
import { contextAt, type Context } from '../cursor.ts'
import { FUNCTION_WORDS } from '../function_words.ts'
import { declaredText, dtypeText, keywordText, valueText } from '../texts.ts'
import { ENTRY_TEXTS } from '../vocabulary.ts'

export function completion(analysis: Analysis, offset: number): CompletionItem[] {
  const { comments } = analysis.tokens
  if (comments.some((comment) => comment.startOffset < offset && offset <= T.tokenEnd(comment))) return []
  const context = contextAt(analysis, offset)
  switch (context.kind) {
    case 'nothing':
      return []
    case 'item':
      return ITEMS
    case 'type':
      return [...names(analysis, context.item, ['type']), ...dtypes('')]
    case 'axis':
      return names(analysis, context.item, ['axis'])
    case 'expression':
      return expressions(analysis, context)
    case 'kernel':
      return analysis.bindings.declared.filter(({ role }) => role === 'kernel').map((one) => named(one, analysis))
    case 'target':
      return targetNames()
    case 'entry':
      return entryKeys(context.target, context.taken)
    case 'value':
      return entryValues(context.target, context.key)
  }
}

const ITEMS: CompletionItem[] = [
  snippet(
    'kernel',
    'kernel ${1:name}(${2:A: f16[m, k], B: f16[k, n]}) -> ${3:D: f16[m, n]} {\n  ${4:D = sum[k](A * B)}\n}',
  ),
  snippet('epilogue', 'epilogue ${1:name}(${2:acc, C, alpha: f32 = 1}) -> ${3:D} {\n  ${4:D = acc * alpha + C}\n}'),
  snippet('schedule', 'schedule ${1:kernel} on ${2:sm_100} {\n  tile ${3:128x128}\n}'),
  keyword('approx'),
  keyword('precise'),
]

function snippet(label: string, insertText: string): CompletionItem {
  return { ...keyword(label), insertText, insertTextFormat: InsertTextFormat.Snippet }
}

function keyword(label: string): CompletionItem {
  const text = keywordText(label)
  return { label, kind: CompletionItemKind.Keyword, ...(text && { documentation: { kind: 'markdown', value: text } }) }
}

const KINDS: Readonly<Record<Role, CompletionItemKind>> = {
  kernel: CompletionItemKind.Function,
  epilogue: CompletionItemKind.Function,
  type: CompletionItemKind.TypeParameter,
  input: CompletionItemKind.Field,
  output: CompletionItemKind.Field,
  parameter: CompletionItemKind.Field,
  value: CompletionItemKind.Variable,
  axis: CompletionItemKind.EnumMember,
}

function named(declared: Declared, analysis: Analysis): CompletionItem {
  const { name, role, item, equation } = declared
  const value = equation && item.kind === 'kernel' ? analysis.valueAt(item, equation.value.span) : undefined
  return {
    label: name,
    kind: KINDS[role],
    detail: value ? valueText(value) : role,
    // What is at hand comes before the functions of the language.
    sortText: `0${name}`,
    documentation: { kind: 'markdown', value: declaredText(declared, analysis) },
  }
}

const names = (analysis: Analysis, item: Item | undefined, roles: readonly Role[]): CompletionItem[] =>
  analysis.bindings.declared
    .filter((one) => one.item === item && roles.includes(one.role))
    .map((one) => named(one, analysis))

const dtypes = (behind: string): CompletionItem[] =>
  DTYPE_NAMES.map((label) => ({
    label,
    kind: CompletionItemKind.Struct,
    detail: behind === '' ? 'dtype' : 'cast',
    sortText: `2${label}`,
    documentation: { kind: 'markdown', value: dtypeText(label) },
    ...call(label, behind),
  }))

/** `name(│)` */
const call = (label: string, behind: string): Partial<CompletionItem> =>
  behind === '' ? {} : { insertText: `${label}${behind}`, insertTextFormat: InsertTextFormat.Snippet }

const functions = (): CompletionItem[] =>
  FUNCTION_WORDS.map(({ label, detail, text, behind }) => ({
    label,
    kind: CompletionItemKind.Function,
    detail,
    sortText: `1${label}`,
    documentation: { kind: 'markdown', value: text },
    ...call(label, behind),
  }))

function expressions(analysis: Analysis, { item, isStatement }: Context & { kind: 'expression' }): CompletionItem[] {
  const roles: Role[] = ['input', 'output', 'parameter', 'value', 'axis']
  const epilogues = analysis.bindings.declared.filter(({ role, item: own }) => role === 'epilogue' && own !== item)
  const isKernel = item?.kind === 'kernel'
  return [
    ...names(analysis, item, roles),
    ...epilogues.map((one) => ({ ...named(one, analysis), ...call(one.name, '($1)') })),
    ...functions(),
    ...dtypes('($1)'),
    ...(isKernel ? [{ ...keyword('epilogue'), ...call('epilogue', '(${1:acc})') }] : []),
    ...(isKernel && isStatement ? [keyword('axis')] : []),
    ...(item?.kind === 'epilogue' && isStatement ? [keyword('return')] : []),
    ...LITERAL_NAMES.map((label) => ({ label, kind: CompletionItemKind.Constant, sortText: `3${label}` })),
  ]
}

const targetNames = (): CompletionItem[] => {
  const spellings = TARGETS.entries.flatMap(({ schedules }) =>
    Object.entries(schedules).flatMap(([name, others]) => [name, ...others]),
  )
  return [...new Set(spellings)].map((label) => ({ label, kind: CompletionItemKind.EnumMember, detail: 'target' }))
}

/** A target that is not known has no entries. */
const entriesOf = (name: string) =>
  TARGETS.entries.find(({ schedules }) =>
    Object.entries(schedules).some(([own, others]) => own === name || others.includes(name)),
  )?.entries ?? {}

const entryKeys = (target: string, taken: readonly string[]): CompletionItem[] =>
  Object.entries(entriesOf(target))
    .filter(([key]) => !taken.includes(key))
    .map(([label, { example }]) => ({
      label,
      kind: CompletionItemKind.Property,
      detail: example,
      documentation: ENTRY_TEXTS[label] ?? '',
    }))

/** What its reader takes, found by asking it: words, and the one that its example has. */
function entryValues(target: string, key: string): CompletionItem[] {
  const entries = entriesOf(target)
  const entry = Object.hasOwn(entries, key) ? entries[key]! : null
  if (!entry?.read) return []
  const span = { start: 0, end: 0 }
  const readings = [
    entry.read({ kind: 'word', text: '', span }),
    entry.read({ kind: 'count', value: -1, span }),
    entry.read({ kind: 'cta', count: -1, span }),
    entry.read({ kind: 'shape', extents: [-1, -1], span }),
  ]
  const known = readings.flatMap((reading) =>
    'words' in reading ? (reading.words ?? []) : 'legal' in reading ? reading.legal : [],
  )
  const values = [...new Set([...known, ...entry.example.split(' ').slice(1), 'auto'])]
  return values
    .filter((label) => /^\w+$/.test(label))
    .map((label, i) => ({ label, kind: CompletionItemKind.Value, sortText: String(i).padStart(4, '0') }))
}

export const TRIGGERS = [':', '[', '|', '(', ',']
