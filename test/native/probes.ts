import type { NativeLaunch } from '../../runtime/addon/virtual.ts'
import { TestDevice } from './device.ts'

const REGISTERS = `
  .reg .pred %p, %q, %in;
  .reg .b16 %a16, %b16, %c16, %d16, %t16_<8>;
  .reg .b32 %a32, %b32, %c32, %d32, %t32_<8>, %id, %block, %width, %n;
  .reg .b64 %a64, %b64, %c64, %d64, %t64_<8>, %out, %pa, %pb, %pc, %offset, %wide;
`

function kernel(text: string, index: number): string {
  const load = (x: string) => `
  add.u64 %p${x}, %p${x}, %offset;
  ld.global.b64 %${x}64, [%p${x}];
  cvt.u32.u64 %${x}32, %${x}64;
  cvt.u16.u64 %${x}16, %${x}64;`
  return `
.visible .entry probe${index}(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
${REGISTERS}
  ld.param.u64 %out, [out];
  ld.param.u64 %pa, [a];
  ld.param.u64 %pb, [b];
  ld.param.u64 %pc, [c];
  ld.param.u32 %n, [n];
  mov.u32 %id, %tid.x;
  mov.u32 %block, %ctaid.x;
  mov.u32 %width, %ntid.x;
  mad.lo.u32 %id, %block, %width, %id;
  setp.lt.u32 %in, %id, %n;
  @!%in exit;
  mul.wide.u32 %offset, %id, 8;
  add.u64 %out, %out, %offset;
${['a', 'b', 'c'].map(load).join('')}
  mov.b16 %d16, 0;
  mov.b32 %d32, 0;
  mov.b64 %d64, 0;
  { ${text} }
  cvt.u64.u32 %wide, %d32;
  or.b64 %d64, %d64, %wide;
  cvt.u64.u16 %wide, %d16;
  or.b64 %d64, %d64, %wide;
  st.global.b64 [%out], %d64;
  exit;
}`
}

/**
 * The PTX of a module with one kernel per probe: an instruction or a few, executed for many operands at once. The
 * text reads operands a, b and c as %a16, %a32, %a64 … and writes %d16, %d32 or %d64 (the others stay 0); %p and %q are
 * predicates, %t16_0, %t32_0, %t64_0 … scratch.
 */
export function probeModule(probes: readonly string[]): string {
  return `.version 9.0\n.target sm_100a\n.address_size 64\n${probes.map(kernel).join('\n')}\n`
}

/** Runs probes by index; operands and results are 64-bit words. */
export class ProbeDevice {
  readonly device: TestDevice
  private readonly uploads = new Map<BigUint64Array, bigint>()

  constructor(probes: readonly string[]) {
    this.device = new TestDevice(probeModule(probes))
  }

  private address(words: BigUint64Array): bigint {
    const known = this.uploads.get(words) ?? this.device.upload(words)
    this.uploads.set(words, known)
    return known
  }

  async run(
    index: number,
    a: BigUint64Array,
    b = a,
    c = b,
    launch: Partial<NativeLaunch> = {},
  ): Promise<BigUint64Array> {
    const out = this.device.allocate(a.length * 8)
    const params = [out, this.address(a), this.address(b), this.address(c), a.length]
    const threads = Math.min(a.length, 256)
    const { findings } = await this.device.run(`probe${index}`, params, {
      grid: [Math.ceil(a.length / threads), 1, 1],
      block: [Math.ceil(threads / 32) * 32, 1, 1],
      ...launch,
    })
    if (findings.length > 0) throw new Error(findings[0]!.message)
    const words = this.device.read(out, a.length, BigUint64Array)
    this.device.device.free(out)
    return words
  }
}

/** 64-bit words of non-negative integers. */
export const wordsOf = (values: ArrayLike<number>): BigUint64Array => BigUint64Array.from(values, (x) => BigInt(x))
