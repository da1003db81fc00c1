/** Every feature of the language server, by its requests. */
import type {
  CodeAction, CompletionItem, DocumentSymbol, FoldingRange, Hover, InlayHint, Location, SignatureHelp, TextEdit, WorkspaceEdit,
} from 'vscode-languageserver' // prettier-ignore
import { beforeEach, describe, expect, test } from 'vitest'
import { TARGETS } from '../../compiler/targets/index.ts'
import { LEGEND } from '../../runtime/lsp/features/semantic_tokens.ts'
import { ENTRY_TEXTS } from '../../runtime/lsp/vocabulary.ts'
import { startServer, URI, type Client } from './client.ts'

let client: Client
beforeEach(async () => {
  client = await startServer()
})

const GEMM = `/// Scales and adds.
epilogue scaled(acc, C, alpha: f32 = 1) -> D {
  D = acc * alpha + C
}

kernel mine<T: f16 | bf16>(A: T[m, k] | T[k, m], B: T[k, n], C: T[m, n]) -> D: T[m, n] {
  acc = sum[k](A * B)
  D = relu(scaled(acc, C))
}

schedule mine on sm_90 {
  tile 128x128 | 128x256
}
`
const edited = (text: string, edits: readonly TextEdit[]): string => {
  const lines = text.split('\n')
  const at = ({ line, character }: TextEdit['range']['start']): number =>
    lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, character)
  return [...edits]
    .sort((a, b) => at(b.range.start) - at(a.range.start))
    .reduce((all, { range, newText }) => all.slice(0, at(range.start)) + newText + all.slice(at(range.end)), text)
}
const textOf = ({ contents }: Hover): string => (contents as { value: string }).value
const marked = (at: string, cursor: string): string => GEMM.replace(at, cursor)
const full = { range: { start: { line: 0, character: 0 }, end: { line: 99, character: 0 } } }

describe('diagnostics', () => {
  test('are those of ktl check, while the text changes', async () => {
    expect((await client.open(GEMM)).diagnostics).toEqual([])
    const range = { start: { line: 7, character: 11 }, end: { line: 7, character: 17 } }
    const { diagnostics } = await client.change('skaled', range)
    expect(diagnostics).toMatchObject([{ code: 'KTL2004', severity: 1, source: 'ktl', range }])
    expect((await client.change('scaled', range)).diagnostics).toEqual([])
  })

  test('point to related places, and grey out what is unused', async () => {
    const { diagnostics } = await client.open('kernel f(X: f32[n], W: f32[n]) -> Y: f32[n] { Y = X\n  Y = X }')
    const byCode = new Map(diagnostics.map((one) => [one.code, one]))
    expect(byCode.get('KTL2010')!.relatedInformation).toMatchObject([{ location: { uri: URI } }])
    expect(byCode.get('KTL2008')).toMatchObject({ severity: 2, tags: [1] })
  })

  test('their fixes are code actions, one by one and all at once', async () => {
    const text = 'kernel f(X: f32[n]) -> Y: f32[n] {\n  a = rellu(X)\n  Y = tanhh(a)\n}\n'
    await client.open(text)
    const actions = await client.connection.sendRequest<CodeAction[]>('textDocument/codeAction', {
      textDocument: { uri: URI }, context: { diagnostics: [] },
      range: { start: { line: 1, character: 7 }, end: { line: 1, character: 7 } },
    }) // prettier-ignore
    expect(actions.map(({ kind }) => kind)).toEqual(['quickfix', 'source.fixAll'])
    expect(edited(text, actions[0]!.edit!.changes![URI]!)).toBe(text.replace('rellu', 'relu'))
    expect(edited(text, actions[1]!.edit!.changes![URI]!)).toBe(text.replace('rellu', 'relu').replace('tanhh', 'tanh'))
  })
})

describe('hover', () => {
  test.each([
    ['acc = sum', '│acc = sum', ['acc: f32[m, n]', 'summed in f32']],
    [
      'A: T[m, k]',
      '│A: T[m, k]',
      ['A: T[m, k]', 'Input of `mine`', 'shape [m, k]', '[k, m], the last axis contiguous'],
    ],
    ['sum[k]', 'sum[│k]', ['Axis of `A`, `B`; no output has it']],
    ['relu(', 're│lu(', ['relu(x)', 'accuracy: exact', 'Here `f32[m, n]`']],
    ['sum[k]', 's│um[k]', ['sum[axes](x)', 'contraction, summed in f32']],
    ['f16 |', 'f│16 |', ['16 bits: 5 of exponent', 'MMA multiplies']],
    ['relu(scaled', 'relu(sca│led', ['epilogue scaled', 'Scales and adds.']],
    ['tile 128', 't│ile 128', ['Rows x columns']],
    ['schedule', 's│chedule', ['which designs']],
  ])('%s', async (at, cursor, parts) => {
    const text = textOf(await client.ask<Hover>('textDocument/hover', marked(at, cursor)))
    for (const part of parts) expect(text).toContain(part)
  })

  test('says how an operand is stored', async () => {
    const text =
      'kernel f(│A: e4m3[m, k] * ue8m0[m, k/32], B: e4m3[k, n] * ue8m0[k/32, n]) -> D: f32[m, n] { D = sum[k](A * B) }'
    const shown = textOf(await client.ask<Hover>('textDocument/hover', text))
    expect(shown).toContain('Stored as e4m3; a value is (data) * scale')
    expect(shown).toContain('scales: ue8m0, one for each `m`, 32 of `k`')
  })

  test('explains a diagnostic', async () => {
    const text = 'kernel f(X: f32[n]) -> Y: f32[n] { Y = │Z }'
    expect(textOf(await client.ask<Hover>('textDocument/hover', text))).toContain('**KTL2001**')
  })

  test('knows values of a kernel that has moved since it was checked', async () => {
    await client.open(GEMM)
    await client.change('\n\n', { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } })
    const shown = await client.at<Hover>('textDocument/hover', { line: 8, character: 3 })
    expect(textOf(shown)).toContain('acc: f32[m, n]')
  })
})

describe('completion', () => {
  const labels = async (text: string): Promise<string[]> =>
    (await client.ask<CompletionItem[]>('textDocument/completion', text)).map(({ label }) => label)
  const HEAD = 'kernel f(X: f32[n, c], W: f32[c]) -> Y: f32[n] {\n  s = sum[c](X * W)\n'

  test.each([
    ['between items', '│', ['kernel', 'schedule', 'epilogue'], ['relu', 'f32']],
    ['a type', 'kernel f<T: f16>(X: │) -> Y: f32[n] { Y = X }', ['bf16', 'T'], ['relu', 'X']],
    ['an expression', `${HEAD}  Y = │\n}`, ['X', 'W', 's', 'relu', 'sum', 'f16'], ['kernel', 'tile']],
    ['half a word', `${HEAD}  Y = re│\n}`, ['relu', 's'], ['kernel']],
    ['axes of a reduction', `${HEAD}  Y = max[│](X)\n}`, ['n', 'c'], ['X', 'relu']],
    ['size()', `${HEAD}  Y = s / size(│)\n}`, ['n', 'c'], ['X', 'relu']],
    [
      'a target',
      'kernel f(X: f32[n]) -> Y: f32[n] { Y = X }\nschedule f on │',
      ['sm_90', 'sm_100', 'simt'],
      ['f', 'tile'],
    ],
    ['a kernel', 'kernel f(X: f32[n]) -> Y: f32[n] { Y = X }\nschedule │', ['f'], ['tile', 'X']],
    ['keys that are left', 'schedule f on sm_90 {\n  tile 128x128\n  │\n}', ['consumers', 'cluster'], ['tile', 'mma']],
    ['words of an entry', 'schedule f on sm_90 {\n  consumers │\n}', ['cooperative', 'pingpong', 'auto'], ['tile']],
    ['more of an entry', 'schedule f on sm_100 {\n  mma 1cta | │\n}', ['1cta', '2cta', 'auto'], ['tile']],
    ['comments', `${HEAD}  // Y = │\n}`, [], ['X', 'relu']],
  ])('%s', async (_, text, there, missing) => {
    const found = await labels(text)
    expect(found).toEqual(expect.arrayContaining(there))
    expect(found.filter((label) => (missing as string[]).includes(label))).toEqual([])
  })

  test('every key of a schedule has its line', () => {
    const keys = new Set(TARGETS.entries.flatMap(({ entries }) => Object.keys(entries)))
    expect(Object.keys(ENTRY_TEXTS).sort()).toEqual([...keys].sort())
  })
})

describe('names', () => {
  test('definition, of an epilogue and of a value', async () => {
    const of = (at: string, cursor: string) => client.ask<Location>('textDocument/definition', marked(at, cursor))
    expect((await of('relu(scaled', 'relu(sc│aled')).range.start).toEqual({ line: 1, character: 9 })
    expect((await of('(acc, C))', '(│acc, C))')).range.start).toEqual({ line: 6, character: 2 })
    expect((await of('schedule mine', 'schedule │mine')).range.start).toEqual({ line: 5, character: 7 })
  })

  test('references of an axis and of an operand', async () => {
    const lines = async (at: string, cursor: string): Promise<number[]> => {
      const more = { context: { includeDeclaration: true } }
      const found = await client.ask<Location[]>('textDocument/references', marked(at, cursor), more)
      return found.map(({ range }) => range.start.line)
    }
    expect(await lines('sum[k]', 'sum[│k]')).toEqual([5, 5, 5, 6])
    expect(await lines('kernel mine', 'kernel │mine')).toEqual([5, 10])
    expect(await lines('C: T[m', '│C: T[m')).toEqual([5, 7])
  })

  test('rename keeps the program, and refuses what cannot be a name', async () => {
    const to = (newName: string) =>
      client.ask<WorkspaceEdit>(
        'textDocument/rename',
        marked('kernel mine<T: f16 | bf16>(A', 'kernel mine<T: f16 | bf16>(│A'),
        { newName },
      )
    const { changes } = await to('left')
    const text = edited(GEMM, changes![URI]!)
    expect(text).toContain('left: T[m, k]')
    expect(text).toContain('sum[k](left * B)')
    expect((await client.change(text)).diagnostics).toEqual([])
    await expect(to('relu')).rejects.toThrow(/relu.*function/)
    await expect(to('kernel')).rejects.toThrow('word of the language')
    await expect(to('B')).rejects.toThrow('there is an input `B` already')
    await expect(to('2x')).rejects.toThrow('no name')
    await expect(client.ask('textDocument/rename', marked('relu', 're│lu'), { newName: 'x' })).rejects.toThrow(
      'no name of this file',
    )
  })
})

test('outline', async () => {
  await client.open(GEMM)
  const symbols = await client.at<DocumentSymbol[]>('textDocument/documentSymbol', { line: 0, character: 0 })
  expect(symbols.map(({ name, detail }) => [name, detail])).toEqual([
    ['scaled', 'epilogue'], ['mine', 'kernel'], ['mine', 'schedule on sm_90'],
  ]) // prettier-ignore
  expect(symbols[1]!.children!.map(({ name }) => name)).toEqual(['T', 'A', 'B', 'C', 'D', 'acc'])
})

test('folding', async () => {
  await client.open(`// one\n// two\n${GEMM}`)
  const ranges = await client.at<FoldingRange[]>('textDocument/foldingRange', { line: 0, character: 0 })
  expect(ranges).toContainEqual({ startLine: 7, endLine: 9 })
  expect(ranges).toContainEqual({ startLine: 0, endLine: 2, kind: 'comment' })
})

test('semantic tokens', async () => {
  await client.open(GEMM)
  const { data } = await client.at<{ data: number[] }>('textDocument/semanticTokens/full', { line: 0, character: 0 })
  const found = new Map<string, string>()
  const lines = GEMM.split('\n')
  for (let i = 0, line = 0, column = 0; i < data.length; i += 5) {
    const [down, right, length, type] = data.slice(i) as [number, number, number, number]
    column = down > 0 ? right : column + right
    line += down
    found.set(`${line + 1} ${lines[line]!.slice(column, column + length)}`, LEGEND.tokenTypes[type]!)
  }
  expect(Object.fromEntries(found)).toMatchObject({
    '1 /// Scales and adds.': 'comment', '6 kernel': 'keyword', '6 mine': 'function', '6 T': 'typeParameter', '6 f16': 'type', '6 m': 'property',
    '6 A': 'parameter', '7 acc': 'variable', '7 sum': 'function', '7 k': 'property', '8 relu': 'function', '8 scaled': 'function',
    '11 sm_90': 'enumMember', '12 tile': 'property', '12 128x128': 'enumMember',
  }) // prettier-ignore
})

test('formatting is that of ktl fmt', async () => {
  const text = 'kernel f( X:f32[n] )->Y:f32[n] {\n Y=X+1\n}\n'
  await client.open(text)
  const edits = await client.at<TextEdit[]>('textDocument/formatting', { line: 0, character: 0 }, { options: {} })
  expect(edited(text, edits)).toBe('kernel f(X: f32[n]) -> Y: f32[n] {\n  Y = X + 1\n}\n')
})

test('signature help', async () => {
  const help = (text: string) =>
    client.ask<SignatureHelp>('textDocument/signatureHelp', `kernel f(X: f32[n]) -> Y: f32[n] { Y = ${text} }`)
  const clamp = await help('clamp(X, 0, │)')
  expect(clamp).toMatchObject({ signatures: [{ label: 'clamp(x, lo, hi)' }], activeParameter: 2 })
  expect((await help('relu(max(X, (│')).signatures[0]!.label).toMatch(/^max\(/)
  expect(await help('X + │1')).toBeNull()
  const own = await client.ask<SignatureHelp>('textDocument/signatureHelp', marked('scaled(acc, C)', 'scaled(acc, │C)'))
  expect(own).toMatchObject({ signatures: [{ label: 'scaled(acc, C, alpha: f32 = 1)' }], activeParameter: 1 })
})

test('inlay hints: types at once, facts of targets when they have come', async () => {
  await client.open(GEMM)
  const hints = () => client.at<InlayHint[]>('textDocument/inlayHint', { line: 0, character: 0 }, full)
  const labelOf = ({ label }: InlayHint): string =>
    typeof label === 'string' ? label : label.map(({ value }) => value).join('')
  const first = await hints()
  expect(first.map(labelOf)).toEqual([': f32[m, n]', 'in f32'])
  await expect.poll(() => client.refreshes, { timeout: 20_000 }).toBe(1)
  const facts = labelOf((await hints())[0]!)
  expect(facts).toMatch(/sm_90a \d+: 128x(128|256)x64, \d+ KiB shared memory, \d+ registers/)
  expect(facts).toMatch(/sm_100a \d+: \w+, \d+ KiB shared memory, \d+ TMEM columns/)
  // An edit that leaves the kernel alone keeps them.
  await client.change('// a\n', { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } })
  expect(labelOf((await hints())[0]!)).toBe(facts)
  expect(client.refreshes).toBe(1)
})
