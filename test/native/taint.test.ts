import { expect, test } from 'vitest'
import { TestDevice } from './device.ts'

// Uninitialised values count where a result depends on them.

const kernel = (body: string) => `.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b64 %rd<2>; .reg .b32 %r<8>; .reg .pred %p<8>;
ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x;
setp.lt.u32 %p0, %r0, 16;
setp.eq.u32 %p1, %r7, 5;
${body}
selp.b32 %r1, 1, 2, %p2;
mad.wide.u32 %rd0, %r0, 4, %rd0;
st.global.u32 [%rd0], %r1;
ret;
}`
const ALL = 'setp.ge.u32 %p3, %r0, 0;\n'
const NONE = 'setp.lt.u32 %p3, %r0, 0;\n'

test.each([
  ['or with true', `${ALL}or.pred %p2, %p1, %p3;`],
  ['and with false', `${NONE}and.pred %p2, %p3, %p1;`],
  ['and with not true', `${ALL}and.pred %p2, %p1, !%p3;`],
  ['a comparison or true', `${ALL}setp.eq.or.u32 %p2, %r7, 5, %p3;`],
  ['a comparison and false, and its opposite', `${NONE}setp.eq.and.u32 %p2|%p4, %r7, 5, %p3;`],
])('an operand that the other decides: %s', async (_, body) => {
  const gpu = new TestDevice(kernel(body))
  expect((await gpu.run('k', [gpu.allocate(128)])).findings).toEqual([])
})

test.each([
  ['or with false', `${NONE}or.pred %p2, %p1, %p3;`],
  ['or with true in half of the lanes', 'or.pred %p2, %p1, %p0;'],
  ['xor', `${ALL}xor.pred %p2, %p1, %p3;`],
  ['and with itself', 'and.pred %p2, %p1, %p1;'],
  ['a comparison and true', `${ALL}setp.eq.and.u32 %p2, %r7, 5, %p3;`],
])('an operand that decides: %s', async (_, body) => {
  const gpu = new TestDevice(kernel(body))
  const { findings } = await gpu.run('k', [gpu.allocate(128)])
  expect(findings.map((f) => f.code)).toEqual(['KTL5004'])
})
