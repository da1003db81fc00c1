/**
 * The virtual device as WebAssembly, which pages have, answers what the addon answers (both.ts). `npm run test:full -- --wasm` builds it, and
 * compares all samples, and all kernels of test/native.
 */
import path from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { check } from '../../playground/compile.ts'
import { choiceOf, instanceOf, RUN_TARGETS } from '../../playground/device/choose.ts'
import { familiesOf } from '../../playground/device/write_ptx.ts'
import { pairs } from '../../runtime/cli/options.ts'
import { makeArguments, planArguments } from '../../runtime/cli/run_arguments.ts'
import { openDevice, type DeviceSpec } from '../../runtime/devices/open.ts'
import { virtualDeviceFor } from '../../runtime/devices/virtual.ts'
import { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { verify } from '../../runtime/selftest/verify.ts'
import { tracedBuild } from '../../runtime/timeline/traced.ts'
import { compared, isBuilt } from './both.ts'

/** Else what takes seconds. */
const isFull = process.env.KTL_WASM === 'full'
const FEW: readonly string[] = ['linear_gelu', 'softmax_rows']
const FAMILIES = familiesOf(path.join(import.meta.dirname, '../../samples'))
const CHOSEN = FAMILIES.filter(({ name }) => isFull || FEW.includes(name))

vi.mock('../../runtime/addon/load.ts', async (original) => {
  const real = await original<typeof import('../../runtime/addon/load.ts')>()
  // Here: mocks come before imports.
  const { isBuilt, withBoth } = await import('./both.ts')
  return isBuilt ? { ...real, loadAddon: () => withBoth(real.loadAddon()) } : real
})

const open = (target: (typeof RUN_TARGETS)[number]) => openDevice(virtualDeviceFor([target]) as DeviceSpec)

describe.skipIf(!isBuilt)(
  'beside the addon (skipped: `make -C native/wasm` has not built native/build/wasm/device.wasm)',
  () => {
    describe.each(RUN_TARGETS)('samples for %s', (target) => {
      test.each(CHOSEN.map((family) => [family.name, family] as const))(
        '%s',
        async (name, family) => {
          const instance = instanceOf(family, target)
          const kernel = new KtlKernel(instance)
          const { dims } = check(family.source!.text).kernels.find((known) => known.name === name)!
          const given = { ...choiceOf(instance), dims: pairs('--dims', '')(dims), seed: 1, inputs: 'normal' } as const
          const plan = planArguments(family, given)
          const device = await open(target)
          try {
            for (const how of [{ order: 'lazy' }, { order: 'eager' }, { order: 'random', seed: 7 }] as const) {
              const { args } = await makeArguments(plan, device)
              const before = compared.launches
              const { check } = await verify(kernel, args, { ...how, checks: 'full', trace: true })
              expect([check.pass, compared.launches > before]).toEqual([true, true])
            }
            const { args } = await makeArguments(plan, device)
            const traced = await tracedBuild(kernel, args)
            if (traced) await kernel.run(args, { ...traced, trace: true })
          } finally {
            await device.close()
          }
        },
        isFull ? 600_000 : 60_000,
      )
    })

    // WebAssembly rounds to nearest alone.
    test('arithmetic in all rounding modes', async () => {
      const device = await open('sm_100a')
      for (const { type, bits, ops } of TYPES) {
        const module = await device.loadModule(roundingPtx(type, bits, ops))
        const inputs = valuesOf(bits)
        const count = inputs.length / 3
        const [x, y] = [device.malloc(inputs.length * (bits / 8)), device.malloc((ops.length * count * bits) / 8)]
        const image = bits === 32 ? Float32Array.from(inputs) : Float64Array.from(inputs)
        await device.write(x, new Uint8Array(image.buffer))
        const before = compared.bytes
        await module.function('all').launch({ grid: count / 32, block: 32, params: [x, y] })
        expect(compared.bytes - before).toBeGreaterThan(ops.length * count)
      }
      await device.close()
    })
  },
)

const MODES = ['rn', 'rz', 'rm', 'rp'] as const
const opsOf = (type: string, flags: readonly string[]): string[] =>
  MODES.flatMap((mode) =>
    flags.flatMap((flag) => [
      ...['add', 'sub', 'mul', 'div'].map((name) => `${name}.${mode}${flag}.${type} r, a, b;`),
      `fma.${mode}${flag}.${type} r, a, b, c;`,
      ...['rcp', 'sqrt'].map((name) => `${name}.${mode}${flag}.${type} r, a;`),
    ]),
  )
const TYPES = [
  { type: 'f32', bits: 32, ops: opsOf('f32', ['', '.ftz']) },
  { type: 'f64', bits: 64, ops: opsOf('f64', ['']) },
] as const

/** Three values for each thread; results of operation i come behind those of the operations before. */
function roundingPtx(type: string, bits: 32 | 64, ops: readonly string[]): string {
  const bytes = bits / 8
  return `.version 9.0
.target sm_100a
.address_size 64
.visible .entry all(.param .u64 x, .param .u64 y) {
.reg .${type} a, b, c, r; .reg .b64 p, q, o, s; .reg .b32 i, j, n;
ld.param.u64 p, [x]; ld.param.u64 q, [y];
mov.u32 i, %ctaid.x; mov.u32 j, %tid.x; mad.lo.u32 i, i, 32, j;
mul.wide.u32 o, i, ${bytes}; add.u64 q, q, o; mul.lo.u64 o, o, 3; add.u64 p, p, o;
mov.u32 n, %nctaid.x; mul.wide.u32 s, n, ${32 * bytes};
ld.global.${type} a, [p]; ld.global.${type} b, [p+${bytes}]; ld.global.${type} c, [p+${2 * bytes}];
${ops.map((op) => `${op} st.global.${type} [q], r; add.u64 q, q, s;`).join('\n')}
ret; }
`
}

/** Ordinary values, those at the ends of the range, neighbours of powers of two, opposites: sums that cancel, results that underflow. */
function valuesOf(bits: 32 | 64): number[] {
  const [digits, low, high] = bits === 32 ? [23, -149, 127] : [52, -1074, 1023]
  const special = [0, -0, 1, -1, Infinity, -Infinity, 2 ** low, -(2 ** low), 2 ** (low + digits), 2 ** high, -(2 ** high) * (2 - 2 ** -digits), 3, 1 / 3]
  const triples = special.flatMap((a) => special.flatMap((b) => [a, b, -a, a, b, 0].slice(0, 6)))
  let state = 12345
  const next = (): number => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
  const random = (): number => {
    const near = Math.round((next() - 0.5) * 4)
    const exponent = next() < 0.2 ? low + Math.floor(next() * digits) : Math.floor((next() - 0.5) * 40)
    return (next() < 0.5 ? -1 : 1) * (next() < 0.3 ? 1 + near * 2 ** -digits : 1 + next()) * 2 ** exponent
  }
  while (triples.length % (3 * 32) !== 0 || triples.length < 3 * 4096) {
    const [a, b] = [random(), random()]
    triples.push(a, next() < 0.2 ? -a : b, next() < 0.3 ? -a * b : random())
  }
  return triples
} // prettier-ignore
