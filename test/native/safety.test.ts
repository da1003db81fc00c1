import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { NativeLaunch } from '../../runtime/addon/virtual.ts'
import { resolveExecution } from '../../runtime/devices/execution.ts'
import { FULL } from '../cases_of.ts'
import { TestDevice } from './device.ts'
import { nativeTool } from './tools.ts'

// No PTX and no parameter touches host memory, ends the process or runs away: it is refused, or ends in a finding.

const root = join(import.meta.dirname, '..', '..')
type Target = 'sm_100a' | 'sm_90a'

/** A module with one entry, whose first instruction is on line `FIRST`. */
const FIRST = 14
const kernel = (body: string, target: Target = 'sm_100a') => `.version 9.0
.target ${target}
.address_size 64
.visible .entry kernel(.param .u64 out) {
.reg .b16 %h<4>;
.reg .b32 %r<300>;
.reg .b64 %rd<8>;
.reg .pred %p<4>;
.shared .align 1024 .b8 data[2048];
.shared .align 8 .b8 bar[8];
mov.u32 %r0, data;
mov.u32 %r1, bar;
ld.param.u64 %rd0, [out];
${body}
ret;
}
`
const load = (body: string, target?: Target) => new TestDevice(kernel(body, target), target)

/** Code, instruction line of the kernel's body (from 1) and message of the finding that stopped the launch. */
async function stopped(body: string, target?: Target, launch: Partial<NativeLaunch> = {}) {
  const gpu = load(body, target)
  const { findings } = await gpu.run('kernel', [gpu.allocate(4096)], launch)
  const fatal = findings.find((finding) => finding.fatal)
  return fatal && { ...fatal, line: fatal.ptxLine - FIRST + 1 }
}

function refusal(body: string, target?: Target): { code?: string; line: number; message: string } {
  try {
    load(body, target)
  } catch (error) {
    const { code, line, message } = error as Error & { code?: string; line?: number }
    return { code, line: (line ?? NaN) - FIRST + 1, message }
  }
  throw new Error('the module was loaded')
}

test.each([
  ['a 64-bit shared address below zero', 'mov.u64 %rd1, -4;\nst.shared.u32 [%rd1], %r1;', 2],
  ['a vector load that wraps', 'mov.u64 %rd1, -16;\nld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1];', 2],
  ['an offset that wraps', 'mov.u64 %rd1, 1024;\nld.shared.u32 %r2, [%rd1+-1028];', 2],
  ['the reserved first KiB, read', 'ld.shared.u32 %r2, [%r0+-4];', 1],
  ['the reserved first KiB, written', 'st.shared.u32 [%r0+-1024], %r0;', 1],
  [
    'a generic address of the reserved first KiB',
    'mov.u64 %rd1, 16;\ncvta.shared.u64 %rd1, %rd1;\nst.u32 [%rd1], %r0;',
    3,
  ],
  ['a barrier in the reserved first KiB', 'mov.u32 %r2, 8;\nmbarrier.init.shared::cta.b64 [%r2], 1;', 2],
  ['the end of the window', 'st.shared.u64 [%r0+2056], %rd0;', 1],
  [
    'a rank that the cluster has not',
    'mapa.shared::cluster.u32 %r2, %r0, 32;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 16, [%r1];',
    2,
  ],
  [
    'a bulk copy whose end wraps',
    'mov.u32 %r2, -1008;\ncp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r0], [%r0], %r2, [%r1];',
    2,
  ],
  ['st.bulk of 2^32 bytes', 'mov.u64 %rd1, 4294967296;\nst.bulk.weak.shared::cta [%r0], %rd1, 0;', 2],
])('shared memory: %s is KTL5002', async (_, body, line) => {
  expect(await stopped(body)).toMatchObject({ code: 'KTL5002', line, warp: 0, cta: [0, 0, 0] })
})

test('local addresses are 64 bits', async () => {
  const body = '.local .b8 own[16];\nmov.u64 %rd1, own;\nadd.u64 %rd1, %rd1, 4294967296;\nst.local.u32 [%rd1], %r0;'
  expect(await stopped(body)).toMatchObject({ code: 'KTL5001', line: 4 })
})

test('descriptors cannot name the reserved first KiB', async () => {
  const body = `mov.u64 %rd1, ${(1n << 62n) | (64n << 32n) | 1n};
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r2, %r3, %r4, %r5}, %rd1, %rd1, 0, 1, 1, 0, 0;`
  expect(await stopped(body, 'sm_90a', { block: [128, 1, 1] })).toMatchObject({ code: 'KTL5002', line: 3 })
})

test.each<[string, string, Target?]>([
  ['cp.async.wait_group -1;', '-1, expected 0 to'],
  ['cp.async.wait_group %r1;', 'must be a constant'],
  ['cp.async.bulk.wait_group -1;', '-1, expected 0 to'],
  ['cp.async.bulk.wait_group.read 9223372036854775808;', 'expected 0 to'],
  ['wgmma.wait_group.sync.aligned -1;', '-1, expected 0 to', 'sm_90a'],
  ['setmaxnreg.inc.sync.aligned.u32 -8;', '-8, expected 24 to 256 in steps of 8'],
  ['setmaxnreg.dec.sync.aligned.u32 0;', '0, expected 24 to 256'],
  ['setmaxnreg.dec.sync.aligned.u32 25;', '25, expected 24 to 256'],
  ['bar.sync 16;', '16, expected 0 to 15'],
  ['bar.sync -1;', '-1, expected 0 to 15'],
  ['barrier.arrive 1, 33;', '33, expected 32 to 1024 in steps of 32'],
  ['mbarrier.init.shared::cta.b64 [%r1], 0;', '0, expected 1 to 1048575'],
  ['mbarrier.init.shared::cta.b64 [%r1], 1048576;', '1048576, expected 1 to 1048575'],
  ['mbarrier.arrive.shared::cta.b64 _, [%r1], 0;', '0, expected 1 to 1048575'],
  ['mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], -1;', '-1, expected 0 to 1048576'],
  ['mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 2;', '2, expected 0 to 1'],
  ['cp.async.ca.shared.global [%r0], [%rd0], 5;', '5, expected a power of two from 4 to 16'],
  ['cp.async.cg.shared.global [%r0], [%rd0], 8;', '8, expected 16'],
  ['cp.async.ca.shared.global [%r0], [%rd0], 8, 9;', '9, expected 0 to 8'],
  ['cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r0], 17;', '17, expected 0 to 1048560 in steps of 16'],
  ['st.bulk.weak.shared::cta [%r0], 7, 0;', '7, expected 0 to'],
  ['st.bulk.weak.shared::cta [%r0], 8, 1;', '1, expected 0'],
  ['tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 48;', '48, expected a power of two from 32 to 512'],
  ['tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 0;', '0, expected a power of two from 32'],
  ['tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r2}, [%r1], -1;', '-1, expected 0 to 511'],
  ['tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd1, %r1, %p1, 16;', '16, expected 0 to 15'],
  ['tensormap.replace.tile.box_dim.global.b1024.b32 [%rd0], 5, %r1;', '5, expected 0 to 4'],
  ['tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%rd0], 4;', '4, expected 0 to 3'],
  ['lop3.b32 %r2, %r1, %r1, %r1, 256;', '256, expected 0 to 255'],
  ['bfe.u32 %r2, %r1, 256, 1;', '256, expected 0 to 255'],
  ['pmevent 16;', '16, expected 0 to 15'],
  ['discard.global.L2 [%rd0], 64;', '64, expected 128'],
])('a constant out of range is refused when the module is loaded: %s', (instruction, message, target) => {
  const { code, line, message: text } = refusal(`mov.u32 %r2, 0;\n${instruction}`, target)
  expect({ code, line }).toEqual({ code: 'KTL5012', line: 2 })
  expect(text).toContain(message)
})

test.each<[string, string]>([
  [
    'more registers than tcgen05.ld has',
    `tcgen05.ld.sync.aligned.16x256b.x64.b32 {${Array.from({ length: 256 }, (_, i) => `%r${i}`).join(', ')}}, [%r1];`,
  ],
  ['a vector atomic with other counts', 'atom.global.add.v4.f32 {%r2, %r3}, [%rd0], {%r4, %r5, %r6, %r7};'],
  [
    'st.async whose type is not last',
    'st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r0], {%r2}, [%r1];',
  ],
])('%s is refused', (_, body) => {
  expect(refusal(body)).toMatchObject({ code: 'KTL5012', line: 1 })
})

test.each([
  'frobnicate.b32 1;',
  'tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r3, %r4}, %r5, [%r1];',
  'tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::2X [%r1], %rd1, %rd1, %r1, [%r1], [%r1], %p1;',
  'tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale [%r1], %rd1, %rd1, %r1, [%r1], [%r1], %p1;',
])('a form that is not known stops what executes it: %s', async (instruction) => {
  const skip = (target: number) => `mov.u32 %r2, ${target};\nsetp.ne.u32 %p0, %r2, 0;\n@%p0 ${instruction}`
  expect(await stopped(skip(0))).toBeUndefined()
  const finding = await stopped(skip(1))
  expect(finding).toMatchObject({ code: 'KTL5012', line: 3, warp: 0 })
  expect(finding!.message).toContain(instruction.slice(0, -1))
})

test('a shared variable is no argument of a call', () => {
  const callee = '.func callee (.param .b64 in) { ret; }\n'
  const text = kernel('call.uni callee, (data);').replace('.visible', `${callee}.visible`)
  expect(() => new TestDevice(text)).toThrow(/must be \.param variables/)
})

test('an endless loop ends at its budget, and the finding says where', async () => {
  const launch = { grid: [2, 1, 1], block: [64, 1, 1] } as const
  const body = 'mov.u32 %r2, %ctaid.x;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 ret;\nL1: bra L1;'
  for (const budget of [{ instructionBudget: 100_000 }, { instructionBudget: 0, warpInstructionBudget: 50_000 }]) {
    const finding = await stopped(body, 'sm_100a', { ...launch, ...budget })
    expect(finding).toMatchObject({ code: 'KTL5014', line: 4, cta: [1, 0, 0] })
    expect(finding!.warp).toBeGreaterThanOrEqual(0)
  }
  // What launches have when nothing is said.
  const { instructionBudget, warpInstructionBudget } = resolveExecution({})
  expect([instructionBudget, warpInstructionBudget]).toEqual([2 ** 36, 2 ** 28])
})

test('.local memory counts as device memory', async () => {
  // 256 KiB for each of 1024 threads is all of the device's 256 MiB.
  const body = '.local .b8 own[262144];\nmov.u64 %rd1, own;\nst.local.u32 [%rd1], %r0;'
  const finding = await stopped(body, 'sm_100a', { block: [1024, 1, 1], grid: [4, 1, 1], threads: 1 })
  expect(finding).toMatchObject({ code: 'KTL5017' })
  expect(finding!.message).toMatch(/\.local memory/)
  expect(await stopped(body, 'sm_100a', { block: [512, 1, 1], threads: 1 })).toBeUndefined()
})

test('calls nested without end, and initialisers that reach far, are refused', () => {
  const depth = 5000
  const functions = Array.from({ length: depth }, (_, i) => `.func f${i} () { ${i ? `call.uni f${i - 1};` : ''} ret; }`)
  const nested = kernel(`call.uni f${depth - 1};`).replace('.visible', `${functions.join('\n')}\n.visible`)
  expect(() => new TestDevice(nested)).toThrow(/nested more than 256 deep/)
  const far = kernel('').replace('.visible', '.global .b8 far[2][1000000000] = {{1}, {1}};\n.visible')
  expect(() => new TestDevice(far)).toThrow(/initialisers reach over more than/)
})

test('work that nobody waits for stays bounded', async () => {
  const body = `mov.u32 %r2, 0;
    L1: cp.async.ca.shared.global [%r0], [%rd0], 16;
    cp.async.commit_group;
    cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r0], 16;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 20000;
    @%p1 bra L1;`
  expect(await stopped(body)).toBeUndefined()
})

test('thousands of mutants of PTX, memory and launches do no harm', () => {
  const count = FULL ? 6000 : 2000
  const corpus = join(root, 'native', 'tests', 'corpus')
  const texts = readdirSync(corpus).map((name) => join(corpus, name))
  const output = execFileSync(
    nativeTool('fuzz_ptx'),
    ['--mutants', `${count}`, '--seed', '1', ...texts, join(root, 'test', 'native', 'corpus', 'syntax.ptx')],
    { encoding: 'utf8' },
  )
  expect(output).toContain(`${count} mutants of seed 1 from 0, none did harm`)
}, 240_000)
