import { expect, test } from 'vitest'
import { TestDevice } from './device.ts'

// Of a register, those bytes count that a result is made of.

/** %r0: a word of shared memory whose lowest byte was stored, 7; %r1: nothing in it is defined. */
const kernel = (body: string) => `.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) {
.shared .align 4 .b8 tile[4];
.reg .b64 %rd<3>; .reg .b32 %r<8>; .reg .b16 %h<4>; .reg .b8 %b<8>; .reg .pred %p<2>;
ld.param.u64 %rd0, [out];
st.shared.u8 [tile], 7;
ld.shared.u32 %r0, [tile];
${body}
ret;
}`
const run = async (body: string, checks: 'default' | 'full' = 'default') => {
  const gpu = new TestDevice(kernel(body))
  const out = gpu.allocate(128)
  const { findings } = await gpu.run('k', [out], { block: [1, 1, 1], checks })
  return { codes: findings.map((f) => f.code), word: gpu.read(out, 1, Uint32Array)[0]! }
}
const WORD = 'st.global.u32 [%rd0], %r2;'

test.each([
  ['the byte alone', 'st.global.u8 [%rd0], %r0;', 7],
  ['unpacked', 'mov.b32 {%b0, %b1, %b2, %b3}, %r0;\nst.global.u8 [%rd0], %b0;', 7],
  ['repacked', 'mov.b32 {%b0, %b1, %b2, %b3}, %r0;\nmov.b16 %h0, {%b0, %b0};\nst.global.u16 [%rd0], %h0;', 0x707],
  [
    'packed with what is undefined',
    'mov.b32 %r2, {%h0, %h1};\nmov.b32 %r2, {%h0, %h0};\nmov.u16 %h1, 9;\nmov.b32 %r2, {%h1, %h0};\nst.global.u16 [%rd0], %r2;',
    9,
  ],
  ['in half of a 64-bit register', 'mov.b64 %rd1, {%r0, %r1};\nst.global.u8 [%rd0], %rd1;', 7],
  ['masked', `and.b32 %r2, %r0, 255;\n${WORD}`, 7],
  ['moved up and down', `shl.b32 %r2, %r0, 24;\n${WORD}`, 7 << 24],
  ['narrowed', `cvt.u32.u8 %r2, %r0;\n${WORD}`, 7],
  ['permuted', `prmt.b32 %r2, %r0, 0, 0x4440;\n${WORD}`, 7],
  ['inserted', `bfi.b32 %r2, %r0, 0, 8, 8;\n${WORD}`, 7 << 8],
  ['extracted', `bfe.u32 %r2, %r0, 0, 8;\n${WORD}`, 7],
  ['replaced', `lop3.b32 %r2, %r0, 0xff, 0x100, 0xea;\n${WORD}`, 0x107],
  ['chosen', 'setp.eq.u32 %p0, 0, 0;\nselp.b32 %r2, %r0, %r1, %p0;\nst.global.u8 [%rd0], %r2;', 7],
  ['through shared memory', 'st.shared.u32 [tile], %r0;\nld.shared.u8 %r2, [tile];\nst.global.u32 [%rd0], %r2;', 7],
  ['overwritten', `mov.u32 %r0, %r1;\nmov.u32 %r0, 3;\nmov.u32 %r2, %r0;\n${WORD}`, 3],
])('a defined byte: %s', async (_, body, word) => {
  expect(await run(body)).toEqual({ codes: [], word })
  expect(await run(body, 'full')).toEqual({ codes: [], word })
})

test.each([
  ['the word', 'st.global.u32 [%rd0], %r0;'],
  ['the next byte', 'mov.b32 {%b0, %b1, %b2, %b3}, %r0;\nst.global.u8 [%rd0], %b1;'],
  ['masked too little', `and.b32 %r2, %r0, 0x1ff;\n${WORD}`],
  ['moved down', 'shr.u32 %r2, %r0, 8;\nst.global.u8 [%rd0], %r2;'],
  ['moved by what is undefined', 'shl.b32 %r2, 7, %r1;\nst.global.u8 [%rd0], %r2;'],
  ['added', 'add.u32 %r2, %r0, 1;\nst.global.u8 [%rd0], %r2;'],
  ['widened with its sign', 'mov.b32 {%b0, %b1, %b2, %b3}, %r0;\ncvt.s32.s8 %r2, %b1;\nst.global.u32 [%rd0], %r2;'],
  ['undefined again', 'mov.u32 %r2, %r0;\nmov.u32 %r2, %r1;\nst.global.u8 [%rd0], %r2;'],
  ['through shared memory', 'st.shared.u32 [tile], %r0;\nld.shared.u8 %r2, [tile+1];\nst.global.u8 [%rd0], %r2;'],
])('an undefined byte: %s', async (_, body) => {
  expect((await run(body)).codes).toEqual(['KTL5004'])
})
