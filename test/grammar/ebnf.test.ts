import { expect, test } from 'vitest'
import { readFileSync } from 'node:fs'
import type { ISerializedGast, TokenType } from 'chevrotain'
import { parseEpilogue, parseProgram } from '../../grammar/parse.ts'
import { parser } from '../../grammar/parser.ts'
import { PRECEDENCE } from '../../grammar/pratt.ts'
import { renderDiagnostics } from '../../grammar/render.ts'
import * as T from '../../grammar/tokens.ts'
import { KEYWORDS } from '../../grammar/vocabulary.ts'

type Node =
  | { kind: 'rule' | 'class' | 'literal'; text: string }
  | { kind: 'sequence' | 'choice'; parts: Node[] }
  | { kind: 'optional' | 'repeat'; part: Node }

const text = readFileSync(new URL('../../grammar/ktl.ebnf', import.meta.url), 'utf8')
const rules = parseEbnf(text.replace(/\(\*[\s\S]*?\*\)/g, ''))

function parseEbnf(source: string): Map<string, Node> {
  const words = source.match(/"[^"]+"|[A-Za-z]+|[=;|()[\]{}]/g) ?? []
  let at = 0
  const take = (expected?: string): string => {
    const word = words[at++]
    if (word === undefined || (expected !== undefined && word !== expected))
      throw new Error(`expected ${expected}, found ${word}`)
    return word
  }
  const choice = (): Node => {
    const parts = [sequence()]
    while (words[at] === '|') {
      at++
      parts.push(sequence())
    }
    return parts.length === 1 ? parts[0]! : { kind: 'choice', parts }
  }
  const sequence = (): Node => {
    const parts: Node[] = []
    while (!['|', ')', ']', '}', ';'].includes(words[at]!)) parts.push(element())
    return { kind: 'sequence', parts }
  }
  const element = (): Node => {
    const word = take()
    const close = { '(': ')', '[': ']', '{': '}' }[word]
    if (close !== undefined) {
      const part = choice()
      take(close)
      return word === '(' ? part : { kind: word === '[' ? 'optional' : 'repeat', part }
    }
    if (word.startsWith('"')) return { kind: 'literal', text: word.slice(1, -1) }
    return { kind: /^[A-Z]+$/.test(word) ? 'class' : 'rule', text: word }
  }
  const result = new Map<string, Node>()
  while (at < words.length) {
    const name = take()
    take('=')
    result.set(name, choice())
    take(';')
  }
  return result
}

function leaves(node: Node): string[] {
  if ('text' in node) return [node.kind === 'literal' ? `"${node.text}"` : node.text]
  return 'parts' in node ? node.parts.flatMap(leaves) : leaves(node.part)
}

const CLASS_OF = new Map<TokenType, string>([
  [T.Ident, 'IDENT'],
  [T.Word, 'WORD'],
  [T.Integer, 'INTEGER'],
  [T.NumberToken, 'NUMBER'],
  [T.Shape, 'SHAPE'],
  [T.Cta, 'CTA'],
  [T.PrefixOperator, 'PREFIX'],
  [T.BinaryOperator, 'OPERATOR'],
  [T.Separator, 'SEPARATOR'],
])
const classByName = new Map([...CLASS_OF].map(([type, name]) => [type.name, name]))

/** The same leaves from chevrotain's own description of a rule. */
function parserLeaves(node: ISerializedGast): string[] {
  const { type, name, label, separator, definition } = node as ISerializedGast & {
    name?: string
    label?: string
    separator?: ISerializedGast
    definition?: ISerializedGast[]
  }
  if (type === 'Terminal') return [classByName.get(name!) ?? `"${label!.replaceAll('`', '')}"`]
  if (type === 'NonTerminal') return [name!]
  return [...(separator ? parserLeaves(separator) : []), ...(definition ?? []).flatMap(parserLeaves)]
}

const distinct = (list: string[]): string[] => [...new Set(list)].sort()

test('the EBNF has the rules of the parser, with the same tokens and references', () => {
  const productions = parser.getSerializedGastProductions() as (ISerializedGast & { name: string })[]
  expect([...rules.keys()].sort()).toEqual(productions.map((p) => p.name).sort())
  for (const production of productions) {
    expect([production.name, distinct(leaves(rules.get(production.name)!))]).toEqual([
      production.name,
      distinct(parserLeaves(production)),
    ])
  }
})

test('the EBNF names the keywords and the operators', () => {
  expect(text).toContain(KEYWORDS.join(' '))
  const operators = /OPERATOR {3}(.*?) {2}/.exec(text)![1]!.split(' ')
  expect(operators.sort()).toEqual(Object.keys(PRECEDENCE).sort())
})

// ---- sentences ----

/** mulberry32: a seeded generator, so that a failing sentence can be made again. */
function random(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

const SAMPLES: Record<string, readonly string[]> = {
  IDENT: ['x', 'acc', 'D', '_t0', 'kernels', 'f16', 'onx'],
  WORD: ['m', 'k', 'by', 'size', 'kernel', 'auto', 'epilogue', 'else', 'inf'],
  INTEGER: ['0', '32', '128'],
  NUMBER: ['1', '0.5', '.25', '3.', '1e-3', '2.5E+2', 'inf', 'nan'],
  SHAPE: ['128x64', '2x1x1'],
  CTA: ['1cta', '2cta'],
  PREFIX: ['-', '!', '+'],
  // Without comparisons: they do not chain, which the flat rule cannot say.
  OPERATOR: ['||', '&&', '+', '-', '*', '/', '%', '^'],
  SEPARATOR: [';', '\n', ';\n\n', '\n ; \n'],
}

function sentence(start: string, seed: number): string {
  const next = random(seed)
  const pick = <X>(list: readonly X[]): X => list[Math.floor(next() * list.length)]!
  const isLeaf = (node: Node, seen: string[] = []): boolean => {
    if ('text' in node)
      return node.kind !== 'rule' || (!seen.includes(node.text) && isLeaf(rules.get(node.text)!, [...seen, node.text]))
    if (node.kind === 'choice') return node.parts.some((part) => isLeaf(part, seen))
    return node.kind !== 'sequence' || node.parts.every((part) => isLeaf(part, seen))
  }
  const make = (node: Node, depth: number): string => {
    switch (node.kind) {
      case 'literal':
        return node.text
      case 'class':
        return pick(SAMPLES[node.text]!)
      case 'rule':
        return make(rules.get(node.text)!, depth + 1)
      case 'sequence':
        return node.parts.map((part) => make(part, depth)).join(' ')
      case 'choice': {
        const finite = node.parts.filter((part) => isLeaf(part))
        return make(pick(depth > 9 && finite.length > 0 ? [finite[0]!] : node.parts), depth)
      }
      case 'optional':
        return depth > 12 || next() < 0.5 ? '' : make(node.part, depth)
      case 'repeat': {
        const times = depth > 12 ? 0 : Math.floor(next() * 3)
        return Array.from({ length: times }, () => make(node.part, depth)).join(' ')
      }
    }
  }
  // A line that begins with a sign carries on the line above, so there only `;` separates.
  return make({ kind: 'rule', text: start }, 0).replace(/\n(?=\s*[-+])/g, ';')
}

/** What the grammar allows and is refused afterwards, with a message of its own. */
const CHECKED_AFTERWARDS = new Set([
  'KTL1010',
  'KTL1011',
  'KTL1013',
  'KTL1015',
  'KTL1022',
  'KTL1023',
  'KTL1024',
  'KTL1027',
  'KTL1028',
  'KTL1029',
  'KTL1030',
  'KTL1034',
  'KTL1035',
])

test.each([
  ['program', (name: string, source: string) => parseProgram({ name, text: source }).diagnostics],
  ['epilogueText', (name: string, source: string) => parseEpilogue({ name, text: source }).diagnostics],
  ['epilogueDef', (name: string, source: string) => parseEpilogue({ name, text: source }).diagnostics],
] as const)('the parser reads sentences of %s', (start, parse) => {
  let nonEmpty = 0
  for (let seed = 0; seed < 400; seed++) {
    const source = sentence(start, seed)
    if (source.trim() !== '') nonEmpty++
    const refused = parse(`seed ${seed}`, source).filter((d) => !CHECKED_AFTERWARDS.has(d.code))
    expect(`${refused.length === 0 ? '' : `${source}\n${renderDiagnostics(refused)}`}`).toBe('')
  }
  expect(nonEmpty).toBeGreaterThan(200)
})
