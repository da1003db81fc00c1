import { execFileSync, spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { nativeTool } from './tools.ts'

const here = path.dirname(fileURLToPath(import.meta.url))
let inspector = ''
beforeAll(() => {
  inspector = nativeTool('ptx_inspect')
}, 120_000)
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'ktl-ptx-'))
afterAll(() => fs.rmSync(work, { recursive: true, force: true }))

/** What native/tests/ptx_inspect.cc prints. */
interface InspectedVariable {
  name: string
  space: number
  align: number
  bytes: number
  extern: boolean
  offset: number
  function: number
  init: number[]
  /** [offset, bytes, shift, variable, function, addend] */
  relocations: number[][]
}
interface InspectedFunction {
  name: string
  entry: boolean
  body: boolean
  params: number[]
  returns: number[]
  paramBytes: number
  callBytes: number
  localBytes: number
  sharedBytes: number
  dynamicShared: number
  maxThreads: number
  maxRegisters: number
  requiredThreads: number[]
  requiredCluster: number[]
  registers: string[]
  tables: number[][]
  /** [PTX line, CUDA line, resolved, source text] */
  instructions: [number, number, string, string][]
}
interface Inspected {
  version: string
  target: string
  bytes: number
  files: string[]
  variables: InspectedVariable[]
  functions: InspectedFunction[]
}

const inspect = (file: string): Inspected =>
  JSON.parse(execFileSync(inspector, [file], { encoding: 'utf8', maxBuffer: 1 << 28 })) as Inspected

function inspectText(text: string): Inspected {
  const file = path.join(work, 'text.ptx')
  fs.writeFileSync(file, text)
  return inspect(file)
}

/** Messages for many texts in one process; 'ok' for those that parse. */
function messages(texts: readonly string[]): string[] {
  const file = path.join(work, 'texts')
  fs.writeFileSync(file, texts.map((text) => `${text}\n----\n`).join(''))
  return execFileSync(inspector, ['--errors', file], { encoding: 'utf8', maxBuffer: 1 << 28 })
    .trimEnd()
    .split('\n')
}

const CORPUS = { functions: 'sm_100a', tensor_sm100: 'sm_100a', wgmma_sm90: 'sm_90a' } as const
const ptxOf = (name: keyof typeof CORPUS | 'syntax'): string =>
  name === 'syntax' ? path.join(here, 'corpus/syntax.ptx') : path.join(work, `${name}.ptx`)

beforeAll(() => {
  for (const [name, arch] of Object.entries(CORPUS)) {
    const source = path.join(here, 'corpus', `${name}.cu`)
    execFileSync('nvcc', [`-arch=${arch}`, '-ptx', '-lineinfo', source, '-o', path.join(work, `${name}.ptx`)])
  }
})

const only = <T>(items: readonly T[], found: (item: T) => boolean): T => {
  const matches = items.filter(found)
  expect(matches).toHaveLength(1)
  return matches[0]!
}
const functionOf = (module: Inspected, name: string): InspectedFunction =>
  only(module.functions, (f) => f.name === name)
const variableOf = (module: Inspected, name: string): InspectedVariable =>
  only(module.variables, (v) => v.name === name)
const resolved = (fn: InspectedFunction): string[] => fn.instructions.map(([, , text]) => text)

test('every instruction of nvcc output is there, with its line, and the branches meet their labels', () => {
  for (const name of Object.keys(CORPUS) as (keyof typeof CORPUS)[]) {
    const text = fs.readFileSync(ptxOf(name), 'utf8')
    const lines = text.split('\n')
    const module = inspect(ptxOf(name))
    expect(module.target).toBe(CORPUS[name])
    expect(module.version).toBe('9.0')
    // An independent count: what stands before a semicolon and is no directive. (nvcc begins every body with .reg.)
    const statements = text
      .replace(/\/\/.*/g, '')
      .replace(/\.section[\s\S]*/, '')
      .replace(/^\s*\.(loc|file)\s.*$/gm, '')
      .split(';')
      .map((piece) => piece.replace(/^(?:\s|[{}]|[$\w]+\s*:(?!:))*/, ''))
    const instructions = module.functions.flatMap((f) => f.instructions)
    expect(instructions).toHaveLength(statements.filter((piece) => /^[a-z@]/.test(piece)).length)
    for (const [line, , , source] of instructions) expect(lines[line - 1]).toContain(source.split(/[ \t]/)[0])
    for (const fn of module.functions)
      for (const target of resolved(fn).flatMap((t) => [...t.matchAll(/ @(\d+)/g)].map((m) => Number(m[1]))))
        expect(target).toBeLessThanOrEqual(fn.instructions.length)
  }
})

test('functions.cu: parameters, locals, shared memory and launch bounds have the layout of CUDA', () => {
  const module = inspect(ptxOf('functions'))
  const fn = functionOf(module, 'everything')
  const params = fn.params.map((i) => module.variables[i]!)
  expect(params.map((p) => [p.offset, p.bytes])).toEqual([
    [0, 8],
    [8, 8],
    [16, 4],
    [24, 24],
  ])
  expect(fn).toMatchObject({ entry: true, paramBytes: 48, maxThreads: 128, requiredCluster: [0, 0, 0] })
  const shared = module.variables.filter((v) => v.space === 6 && v.function === module.functions.indexOf(fn))
  for (const variable of shared) expect(variable.offset % variable.align).toBe(0)
  expect(Math.min(...shared.map((v) => v.offset))).toBe(0x400)
  expect(0x400 + fn.sharedBytes).toBe(Math.max(...shared.map((v) => v.offset + v.bytes)))
  expect(fn.dynamicShared).toBe(Math.ceil((0x400 + fn.sharedBytes) / 16) * 16)
  expect(functionOf(module, 'indirect')).toMatchObject({ maxRegisters: 64, requiredCluster: [2, 1, 1] })
})

test('functions.cu: shared variables of several functions count only for the entries that reach them', () => {
  const module = inspect(ptxOf('functions'))
  const common = only(module.variables, (v) => v.name.endsWith('common') && v.space === 6)
  expect(common).toMatchObject({ offset: 0x400, bytes: 32 })
  expect(functionOf(module, 'with_common')).toMatchObject({ sharedBytes: 32 + 20, dynamicShared: 0x440 })
  expect(functionOf(module, 'with_common_too')).toMatchObject({ sharedBytes: 32, dynamicShared: 0x420 })
  expect(functionOf(module, 'without_common')).toMatchObject({ sharedBytes: 12, dynamicShared: 0x410 })
})

test('functions.cu: initialisers hold bytes and the addresses to fill in', () => {
  const module = inspect(ptxOf('functions'))
  const index = (name: string): number => module.variables.findIndex((v) => v.name === name)
  expect(variableOf(module, 'table').init).toEqual([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4])
  expect(variableOf(module, 'pointers').relocations).toEqual([
    [0, 8, 0, index('table'), -1, 0],
    [8, 8, 0, index('table'), -1, 8],
  ])
  expect(new Float64Array(new Uint8Array(variableOf(module, 'number').init).buffer)[0]).toBe(2.5)
  const doubled = module.functions.findIndex((f) => f.name === '_Z7doubledi')
  expect(variableOf(module, 'chosen').relocations).toEqual([[0, 8, 0, -1, doubled, 0]])
})

test('functions.cu: calls name their function, arguments and results', () => {
  const module = inspect(ptxOf('functions'))
  const calls = resolved(functionOf(module, 'everything')).filter((text) => text.startsWith('call'))
  const callees = calls.map((text) => module.functions[Number(/, f(\d+),/.exec(text)![1])]!.name)
  expect(callees.sort()).toEqual(['__assertfail', 'helper', 'vprintf'])
  const helper = module.functions.findIndex((f) => f.name === 'helper')
  const [returned, passed] = [
    ...calls.find((text) => text.includes(` f${helper},`) || text.includes(`, f${helper},`))!.matchAll(/\{([^}]*)\}/g),
  ]
  expect(returned![1]!.split(',').map((v) => module.variables[Number(v.slice(1))]!.name)).toEqual(['retval0'])
  expect(passed![1]!.split(',').map((v) => module.variables[Number(v.slice(1))]!.name)).toEqual([
    'param0',
    'param1',
    'param2',
  ])
  expect(
    resolved(functionOf(module, 'indirect')).filter((text) => /^call \{v\d+\}, r\d+, \{v\d+\}, prototype_/.test(text)),
  ).toHaveLength(1)
  expect(functionOf(module, 'vprintf').body).toBe(false)
})

test('functions.cu: equal labels in sibling scopes stay apart', () => {
  const code = resolved(functionOf(inspect(ptxOf('functions')), 'everything'))
  const waits = code.flatMap((text, i) => (text.startsWith('mbarrier.try_wait') ? [i] : []))
  expect(waits).toHaveLength(3)
  for (const wait of waits) {
    expect(code[wait + 1]).toMatch(new RegExp(`^@r\\d+ bra @${wait + 3}$`))
    expect(code[wait + 2]).toBe(`bra @${wait}`)
  }
  expect(new Set(waits.map((wait) => /r\d+/.exec(code[wait]!)![0])).size).toBe(3) // each scope has its own register
})

test('tensor_sm100.cu: operands of tcgen05, TMA, mbarrier and CLC', () => {
  const module = inspect(ptxOf('tensor_sm100'))
  const forms = (fn: string): string =>
    resolved(functionOf(module, fn))
      .join('\n')
      .replace(/\br\d+/g, 'r')
  const tcgen05 = forms('tcgen05_forms')
  for (const text of [
    'tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r], #512',
    'tcgen05.mma.cta_group::1.kind::f16 [r], r, r, r, r',
    'tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [r+16], [r], r, r, {r,r,r,r}, !r',
    'tcgen05.mma.cta_group::1.kind::tf32 [r], r, r, r, #1, #3',
    'tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [r], r, r, r, [r], [r+4], r',
    'tcgen05.cp.cta_group::1.64x128b.warpx2::02_13.b8x16.b4x16_p64 [r], r',
    'tcgen05.ld.sync.aligned.32x32b.x1.b32 {r}, [r]',
    'tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 {r,r,r,r}, [r+32]',
    'tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {r,r}, [r], #8',
    'tcgen05.st.sync.aligned.16x64b.x4.b32 [r], {r,r,r,r}',
    'tcgen05.wait::ld.sync.aligned',
    'tcgen05.dealloc.cta_group::1.sync.aligned.b32 r, #512',
  ])
    expect(tcgen05.split('\n')).toContain(text)
  const copies = forms('copies').split('\n')
  for (const text of [
    'cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [r], T[[r],r,r], [r]',
    'cp.async.bulk.tensor.3d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [r], T[[r],r,r,#7], [r], r, r',
    'cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [r], T[[r],r,r,r], [r], {r}',
    'cp.async.bulk.tensor.2d.global.shared::cta.bulk_group T[[r],r,r], [r]',
    'cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r], [r], r, [r]',
    'cp.async.bulk.wait_group.read #0',
  ])
    expect(copies).toContain(text)
  const barriers = forms('synchronisation').split('\n')
  for (const text of [
    'mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 r, [r], #128',
    'mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r-8]',
    'elect.sync r|r, #4294967295',
    'elect.sync _|r, #4294967295',
    '@r clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {r,r,r,_}, r',
    'mov.b64 {_,r}, r',
  ])
    expect(barriers).toContain(text)
})

test('wgmma_sm90.cu: accumulator lists, register fragments, negative scales', () => {
  const code = resolved(functionOf(inspect(ptxOf('wgmma_sm90')), 'wgmma_forms')).map((text) =>
    text.replace(/\br\d+/g, 'r'),
  )
  expect(code).toContain('wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {r,r,r,r}, r, r, r, #1, #-1, #0, #1')
  expect(code).toContain('wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {r,r,r,r}, {r,r,r,r}, r, #1, #1, #1, #0')
  expect(code).toContain('setmaxnreg.inc.sync.aligned.u32 #240')
})

test('syntax.ptx: scopes, labels, addresses, immediates and tables', () => {
  const module = inspect(ptxOf('syntax'))
  const kernel = functionOf(module, 'kernel')
  expect(resolved(kernel)).toEqual([
    'mov.u32 r0, %tid.x',
    'mov.b32 r1, %laneid',
    'setp.eq.and.s32 r2|r3, r0, #0, !r2',
    '@!r2 bra @25',
    'mov.u32 r4, v7',
    'mov.u32 r5, v16+2',
    'mov.u64 r6, v0+8',
    'ld.shared.v2.b32 {_,r7}, [r4-16]',
    'ld.shared.b32 r5, [v16]',
    'ld.shared.b32 r5, [r4+11]',
    'ld.local.b32 r5, [128]',
    'bra @12',
    '@r8 bra @25',
    'bra @14',
    'st.param.b32 [v17], r0',
    'call.uni {v19}, f1, {v17,v18}',
    'ld.param.b32 r9, [v19]',
    'mov.u64 r10, f1',
    'call {v23}, r10, {v21,v22}, proto',
    'brx.idx.uni r0, table0',
    'mov.f32 r11, #fbf800000',
    'fma.rn.f32 r12, r11, #d3ff0000000000000, #dbff0000000000000',
    'add.u64 r6, r6, #-1',
    'mov.u32 r7, v6',
    'ret',
  ])
  expect(kernel.tables).toEqual([[25, 24, 25]])
  expect(kernel.registers).toEqual('%r0 %r9 p q %r0 %r1 %rd0 plain p %r2 %rd1 %f0 %f1'.split(' '))
  expect(kernel.instructions.map(([, cuda]) => cuda)).toEqual([10, 10, ...Array<number>(22).fill(20), 0])
  expect(kernel).toMatchObject({
    maxThreads: 64,
    maxRegisters: 128,
    requiredCluster: [2, 1, 1],
    paramBytes: 192,
    callBytes: 40,
  })
  // common (12 bytes) is reached through callee, own (3) follows; dynamic asks for 1024-byte alignment.
  expect(kernel).toMatchObject({ sharedBytes: 15, dynamicShared: 0x800 })
  expect(module.files).toEqual(['', 'first.cu', 'second.cu'])
})

test('syntax.ptx: initialisers in every notation', () => {
  const module = inspect(ptxOf('syntax'))
  const bytes = (name: string): ArrayBuffer => {
    const variable = variableOf(module, name)
    const padded = new Uint8Array(variable.bytes)
    padded.set(variable.init)
    return padded.buffer
  }
  expect([...new Int32Array(bytes('rows'))]).toEqual([1, 0, 0, 2, 16, 3])
  expect([...new Float32Array(bytes('singles'))]).toEqual([1, -1.5, 2, Math.fround(1e-3)])
  expect([...new BigInt64Array(bytes('expressions'))]).toEqual([19n, -3n, 8n, 64n, 15n, 5n])
  expect([...new Uint32Array(bytes('quad'))]).toEqual([1, 2, 3, 4])
  expect(variableOf(module, 'packed').relocations).toEqual([
    [0, 1, 0, 0, -1, 0],
    [1, 1, 8, 0, -1, 0],
    [2, 1, 16, 0, -1, 4],
  ])
})

const HEADER = '.version 9.0\n.target sm_100a\n.address_size 64\n'
const body = (code: string): string =>
  `${HEADER}.entry k(.param .u64 x)\n{\n.reg .b32 %r<4>;\n.reg .pred %p<2>;\n${code}\n}`

/** Text → the whole message. `body` code starts on line 8. */
const MALFORMED: readonly (readonly [string, string])[] = [
  ['', "line 2, column 1: expected '.version', got the end of the text"],
  ['.version 9', "line 1, column 10: expected a version such as 9.0, got '9'"],
  ['.version 9.0 .target', 'line 2, column 1: expected a target such as sm_100a, got the end of the text'],
  ['.version 9.0 .target debug', 'line 2, column 1: expected a target such as sm_100a before, got the end of the text'],
  [
    '.version 9.0 .target sm_100a .address_size 32',
    'line 2, column 1: expected address size 64 before, got the end of the text',
  ],
  [`${HEADER}#`, "line 4, column 1: expected PTX, got the character '#'"],
  [`${HEADER}\u0001`, 'line 4, column 1: expected PTX, got the byte 0x01'],
  [`${HEADER}/* open`, "line 4, column 1: expected '*/' after '/*', got the end of the text"],
  [`${HEADER}.file 1 "open`, `line 4, column 9: expected '"' at the end of the string, got the end of the line`],
  [
    `${HEADER}.bogus`,
    "line 4, column 1: expected a variable, '.func', '.entry' or another module directive, got '.bogus'",
  ],
  [`${HEADER}.global .b33 x;`, "line 4, column 9: expected a type such as .b32, got '.b33'"],
  [`${HEADER}.global .pred x;`, "line 4, column 9: expected a type with a size in memory, got '.pred'"],
  [`${HEADER}.global .align 3 .b32 x;`, "line 4, column 16: expected a power of two as alignment, got '3'"],
  [`${HEADER}.global .b32 x[-1];`, 'line 4, column 15: expected a non-negative array extent'],
  [`${HEADER}.global .b32 x[1 << 60];`, 'line 4, column 15: the array is larger than the device allows (2^40 bytes)'],
  [`${HEADER}.global .b32 x[1 / 0];`, 'line 4, column 18: division by zero in a constant expression'],
  [`${HEADER}.global .b32 x[];`, "line 4, column 14: the array 'x' needs an extent or an initialiser"],
  [`${HEADER}.global .b32 x[2] = {1, 2, 3};`, 'line 4, column 28: more initialisers than the variable has elements'],
  [`${HEADER}.global .b32 x = 1.5;`, "line 4, column 18: expected an integer for a variable of type .b32, got '1.5'"],
  [`${HEADER}.global .u64 x = y;`, "line 4, column 18: undeclared variable or function 'y' in an initialiser"],
  [`${HEADER}.shared .b32 x = 1;`, 'line 4, column 16: only .global and .const variables can have an initialiser'],
  [`${HEADER}.global .b32 x, x;`, "line 4, column 17: 'x' is declared twice in one scope"],
  [`${HEADER}.extern .global .b32 x;`, "line 4, column 1: the .extern variable 'x' has no definition in this module"],
  [
    `${HEADER}.shared .b8 x[50000];`,
    "line 4, column 1: static .shared variables need more than 49152 bytes with 'x'; use dynamic shared memory (.extern .shared)",
  ],
  [`${HEADER}.local .b8 x;`, 'line 4, column 12: a .local or .param variable must be declared inside a function'],
  [`${HEADER}.entry`, 'line 5, column 1: expected a function name, got the end of the text'],
  [`${HEADER}.entry k(.reg .b32 x) {}`, "line 4, column 10: expected '.param', got '.reg'"],
  [
    `${HEADER}.entry k(.param .b8 x[40000]) {}`,
    'line 4, column 21: more than 32764 bytes of parameters in one function',
  ],
  [`${HEADER}.entry k .bogus {}`, "line 4, column 10: expected a function directive, '{' or ';', got '.bogus'"],
  [`${HEADER}.entry k .maxntid 1, 2, 3, 4 {}`, "line 4, column 28: expected at most three numbers before, got '4'"],
  [`${HEADER}.entry k {} .entry k {}`, "line 4, column 20: the function 'k' is defined twice"],
  [`${HEADER}.entry k {} .func k {}`, "line 4, column 19: 'k' is declared both as .entry and as .func"],
  [`${HEADER}.entry k {`, "line 5, column 1: expected a statement or '}', got the end of the text"],
  [
    `${HEADER}.section .debug_str {`,
    "line 5, column 1: expected '}' at the end of the section, got the end of the text",
  ],
  [body('mov.b32 %r9, 1;'), "line 8, column 9: undeclared name '%r9': no .reg in scope declares it"],
  [body('mov.b32 %r1, nothing;'), "line 8, column 14: undeclared name 'nothing'"],
  [body('mov.b32 %r1, %tid.q;'), "line 8, column 18: expected '.x', '.y' or '.z', got '.q'"],
  [body('mov.b32 %r1'), "line 9, column 1: expected ',' or ';', got '}'"],
  [body('mov.b32 %r1,;'), "line 8, column 13: expected an operand, got ';'"],
  [body('mov.b32 %r1, {%r2, {%r3}};'), "line 8, column 20: expected an operand, got '{'"],
  [body('mov.b32 %r1, 0f3F8;'), "line 8, column 14: expected 8 hexadecimal digits after 0f, got '0f3F8'"],
  [body('mov.b32 %r1, 0x;'), "line 8, column 14: expected digits, got '0x'"],
  [body('mov.b32 %r1, 09;'), "line 8, column 14: expected an octal digit, got '09'"],
  [body('mov.b32 %r1, 12monkeys;'), "line 8, column 14: expected a number, got '12monkeys'"],
  [
    body('mov.b32 %r1, 99999999999999999999;'),
    "line 8, column 14: expected a number of at most 64 bits, got '99999999999999999999'",
  ],
  [body('ld.global.b32 %r1, [%r2;'), "line 8, column 24: expected '+', ',' or ']', got ';'"],
  [body('ld.global.b32 %r1, [%r2+%r3];'), "line 8, column 25: expected a constant, got '%r3'"],
  [body('ld.global.b32 %r1, [%tid.x];'), "line 8, column 21: expected a register or a variable as address, got '%tid'"],
  [body('ld.global.b32 %r1, [1.5];'), "line 8, column 21: expected an integer address, got '1.5'"],
  [body('@%r1 ret;'), "line 8, column 2: expected a predicate register, got '%r1' of another type"],
  [body('@nobody ret;'), "line 8, column 2: expected a predicate register, got 'nobody'"],
  [body('@%p1 { ret; }'), "line 8, column 6: expected an instruction, got '{'"],
  [body('bra NOWHERE;'), "line 8, column 5: undefined label 'NOWHERE'"],
  [body('{ INSIDE: }\nbra INSIDE;'), "line 9, column 5: undefined label 'INSIDE'"],
  [body('bra %r1;'), "line 8, column 5: expected a label, got '%r1'"],
  [body('bra;'), "line 8, column 4: expected a target, got ';'"],
  [body('L: L: ret;'), "line 8, column 4: 'L' is declared twice in one scope"],
  [body('.reg .b32 %r<9>;'), "line 8, column 11: the register range '%r' is declared twice in one scope"],
  [body('.reg .b32 %s<x>;'), "line 8, column 14: expected a register count, got 'x'"],
  [
    body('.reg .v4 .f32 v;'),
    "line 8, column 6: expected a scalar register type (vector registers are not part of this device), got '.v4'",
  ],
  [body('call nobody;'), "line 8, column 6: undeclared name 'nobody'"],
  [body('call.uni (x), x, (x);'), "line 8, column 15: expected a function, got 'x'"],
  [body('call %r1, (x), proto;'), "line 8, column 16: undeclared call prototype 'proto'"],
  [body('.loc 1 2;'), "line 8, column 9: expected a column, got ';'"],
  [
    body('.bogus 1;'),
    "line 8, column 1: expected an instruction, a declaration, '.loc', '.pragma' or '}', got '.bogus'",
  ],
  [body('%r1 = 3;'), "line 8, column 1: expected an instruction or a label, got '%r1'"],
  [body('setp.eq.s32 %p1|, %r1, 0;'), "line 8, column 17: expected a register after '|', got ','"],
  [body('.local .b8 big[600000];'), 'line 8, column 12: more than 524288 bytes of .local variables in one function'],
]

test.each(MALFORMED.map(([text, message], i) => [i, message, text] as const))('malformed %i: %s', (i, message) => {
  expect(malformed()[i]).toBe(message)
})
let malformedMessages: string[] | undefined
const malformed = (): string[] => (malformedMessages ??= messages(MALFORMED.map(([text]) => text)))

test('hostile sizes end in a message or parse, quickly', () => {
  const scopes = (n: number): string => body('{'.repeat(n) + '}'.repeat(n))
  const texts = [
    scopes(60),
    scopes(100_000),
    body(`mov.b32 %r1, ${'('.repeat(100_000)}1;`),
    body(`mov.b32 %r1, ${'-'.repeat(100_000)}1;`),
    body(`mov.b32 %r1, ${'~-!'.repeat(1000)}1;`),
    `${HEADER}.global .b32 x[2] = ${'{'.repeat(100_000)}`,
    body(`mov.b32 %r1, {${'%r1,'.repeat(300)}%r1};`),
    body('.reg .b32 %huge<2147483647>;\nmov.b32 %huge2147483646, 1;'),
    body('.reg .b32 %huge<2147483647>;\nmov.b32 %huge00000000000000001, 1;'),
    body(`bra ${'L'.repeat(3000)};\n${'L'.repeat(3000)}:`),
    body(`T: .branchtargets ${'L,'.repeat(50_000)}L;\nL:\n${'brx.idx %r1, T;\n'.repeat(20_000)}`),
    `${HEADER}.global .b8 zero[1099511627776];`,
  ]
  const outcome = messages(texts)
  expect(outcome).toEqual([
    'ok',
    'line 8, column 62: scopes are nested more than 64 deep',
    expect.stringContaining('a constant expression is nested too deeply'),
    'ok',
    'ok',
    expect.stringMatching(/^line 4, column \d+: expected a constant, got '\{'$/),
    expect.stringContaining('a vector has more than 256 elements'),
    expect.stringContaining("undeclared name '%huge2147483646'"),
    expect.stringContaining('undeclared name'),
    'ok',
    'ok',
    'ok',
  ])
})

test('thousands of random mutations of real PTX parse or fail with a place, and nothing else', () => {
  let refused = 0
  for (const [seed, name] of (['functions', 'tensor_sm100', 'wgmma_sm90', 'syntax'] as const).entries()) {
    const run = spawnSync(inspector, ['--mutate', String(seed + 1), '1500', ptxOf(name)], { encoding: 'utf8' })
    expect({ signal: run.signal, status: run.status, stderr: run.stderr }).toEqual({
      signal: null,
      status: 0,
      stderr: '',
    })
    const counts = JSON.parse(run.stdout) as { accepted: number; refused: number }
    expect(counts.accepted + counts.refused).toBe(1500)
    refused += counts.refused
  }
  expect(refused).toBeGreaterThan(3000)
})

test('a megabyte of PTX', () => {
  const kernel = fs.readFileSync(ptxOf('functions'), 'utf8')
  const start = kernel.indexOf('.visible .entry everything')
  const one = kernel.slice(start, kernel.indexOf('ret;\n\n}\n', start) + 8)
  const copies = Math.ceil((1 << 20) / one.length)
  const repeated = Array.from({ length: copies }, (_, i) =>
    one.replaceAll('everything', `everything${i}`).replaceAll('_ZZ10', `_ZZ${i}x`),
  )
  const text = kernel.slice(0, start) + repeated.join('\n')
  const { bytes, functions } = inspectText(text)
  expect(bytes).toBeGreaterThan(1 << 20)
  expect(functions.filter(({ entry }) => entry)).toHaveLength(copies)
})
