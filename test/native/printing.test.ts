import { describe, expect, test } from 'vitest'
import { compileToPtx, TestDevice, type Parameter } from './device.ts'
import { ORDERS, describeOrder } from './prelude.ts'
import type { NativeLaunch } from '../../runtime/addon/virtual.ts'

const ptx = compileToPtx(String.raw`
#include <cassert>
#include <cstdio>
extern "C" __global__ void formats(int* taken) {
  taken[0] = printf("%d %i|%5d|%-5d|%05d|%+d|%*d|%.3d\n", -1, 2, 3, 4, 5, 6, 4, 7, 8);
  taken[1] = printf("%u %x %X %#o %hd %hhu %lld %llx %lu\n", 4000000000u, 0xabcu, 0xabcu, 8u, 65537, 257u, -(1ll << 40), 1ull << 40, 1ul << 33);
  taken[2] = printf("%f %.2f %10.3e %g %G %a %F\n", 1.5, 2.0 / 3, 12345.678, 1e-10, 1e20, 1.0, 0.25);
  taken[3] = printf("%s|%8s|%.2s|%c|%p|%%\n", "text", "right", "cut", 'c', (void*)0x1234);
  taken[4] = printf("nothing\n");
  const char* unknown = "%q %d\n";
  taken[5] = printf(unknown, 9);
  char word[4] = {'l', 'o', 'c', 0};
  taken[6] = printf("%s\n", word);
}
extern "C" __global__ void threads() {
  if (threadIdx.x == 3) printf("CTA %d thread %d\n", blockIdx.x, threadIdx.x);
}
extern "C" __global__ void stops(int limit) {
  printf("%d", threadIdx.x);
  __syncwarp();
  assert(threadIdx.x < limit && "below the limit");
}
`)

async function run(name: string, params: Parameter[], launch: Partial<NativeLaunch> = {}) {
  const gpu = new TestDevice(ptx)
  let text = ''
  const result = await gpu.run(name, params, { ...launch, onPrint: (more) => void (text += more) })
  return { text, findings: result.findings, gpu }
}

test('formats as those of the host, and how many arguments they take', async () => {
  const gpu = new TestDevice(ptx)
  const taken = gpu.allocate(28)
  let text = ''
  const { findings } = await gpu.run('formats', [taken], {
    block: [1, 1, 1],
    checks: 'full',
    onPrint: (more) => void (text += more),
  })
  expect(findings).toEqual([])
  expect(text.split('\n')).toEqual([
    '-1 2|    3|4    |00005|+6|   7|008',
    '4000000000 abc ABC 010 1 1 -1099511627776 10000000000 8589934592',
    '1.500000 0.67  1.235e+04 1e-10 1E+20 0x1p+0 0.250000',
    'text|   right|cu|c|0x1234|%',
    'nothing',
    '%q 9',
    'loc',
    '',
  ])
  expect([...gpu.read(taken, 7, Int32Array)]).toEqual([9, 9, 7, 5, 0, 1, 1])
})

describe.each(ORDERS)('$order $seed', (order) => {
  test('text comes in the order of the grid, whatever the number of threads', async () => {
    const expected = Array.from({ length: 20 }, (_, cta) => `CTA ${cta} thread 3\n`)
    for (const threads of [1, 4]) {
      const { text, findings } = await run('threads', [], { ...order, grid: [20, 1, 1], threads })
      expect(findings).toEqual([])
      expect(text, describeOrder(order)).toBe(expected.join(''))
    }
  })
})

test('an assertion that fails names its text and place; what was printed before comes out', async () => {
  const { text, findings } = await run('stops', [5])
  expect(text).toBe(Array.from({ length: 32 }, (_, i) => i).join(''))
  expect(findings).toMatchObject([{ code: 'KTL5016', fatal: true, warp: 0, lane: 5 }])
  expect(findings[0]!.message).toMatch(
    /^assertion failed: threadIdx.x < limit && "below the limit" \(.*kernel.cu:\d+, void stops\(int\)\)$/,
  )
  expect((await run('stops', [32])).findings).toEqual([])
})

test.each([
  ['a format that is no address', 'mov.u64 %rd0, 64;', 'KTL5001'],
  ['arguments that are no address', 'mov.u64 %rd1, 64;', 'KTL5001'],
  [
    'arguments behind local memory',
    'mov.u64 %rd1, space;\ncvta.local.u64 %rd1, %rd1;\nadd.u64 %rd1, %rd1, 4096;',
    'KTL5001',
  ],
])('%s is a finding', async (_, body, code) => {
  const gpu = new TestDevice(`.version 9.0
.target sm_100a
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.global .align 1 .b8 text[4] = {37, 100, 10, 0};
.visible .entry k() {
.local .align 8 .b8 space[8];
.reg .b64 %rd<2>;
mov.u64 %rd0, text;
cvta.global.u64 %rd0, %rd0;
mov.u64 %rd1, space;
cvta.local.u64 %rd1, %rd1;
${body}
{
.param .b64 p0;
st.param.b64 [p0], %rd0;
.param .b64 p1;
st.param.b64 [p1], %rd1;
.param .b32 q;
call.uni (q), vprintf, (p0, p1);
}
ret;
}`)
  expect((await gpu.run('k', [])).findings).toMatchObject([{ code }])
})
