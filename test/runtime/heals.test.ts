/** What a broken compiler wrote does not outlive it: in the same process, and in the cache on disk. */
import * as fs from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { probeAddon } from '../../runtime/addon/load.ts'
import { KernelArguments, loadSource, openDevice, type Device, type Tensor } from '../../runtime/index.ts'
import { findNvcc } from '../../runtime/toolchain/nvcc.ts'
import { errorOf } from './errors.ts'

const nvcc = await findNvcc().catch(() => null)
const skipped = probeAddon().addon === null || nvcc === null ? ' (skipped without nvcc and the native addon)' : ''
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'ktl-test-'))
const compiler = path.join(folder, 'nvcc')
let device: Device

beforeAll(async () => {
  vi.stubEnv('KTL_CACHE_DIR', path.join(folder, 'cache'))
  vi.stubEnv('KTL_NVCC', compiler)
  if (skipped === '') device = await openDevice('virtual-sm100')
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await device?.close()
  fs.rmSync(folder, { recursive: true, force: true })
})

/** nvcc with the lines of `script` between it and its caller; they find the PTX in $out. */
function install(script: string): void {
  const wrapper = `#!/bin/sh\n"${nvcc!.path}" "$@" || exit 1\nwhile [ $# -gt 1 ]; do [ "$1" = -o ] && out="$2"; shift; done\n[ -z "$out" ] && exit 0\n${script}\nexit 0\n`
  fs.rmSync(compiler, { force: true })
  fs.writeFileSync(compiler, wrapper, { mode: 0o755 })
}
/** Has the header and every kernel, and an instruction that there is not. */
const UNPARSABLE = `sed -i 's/^\\tret;/\\t!/' "$out"`
/** Kernels under other names. */
const RENAMED = `sed -i 's/\\bfill\\b/other/g' "$out"`

describe.skipIf(skipped !== '')(`a repaired nvcc${skipped}`, () => {
  test('KTL5013 of a .ktl kernel ends with it', async () => {
    const { kernels } = loadSource({ name: 'heal.ktl', text: 'kernel heal(X: f32[n]) -> Y: f32[n] { Y = X + 41 }' })
    const X = device.tensor('f32', [4], 1)
    const Y: Tensor = device.empty('f32', [4])
    const run = () => kernels.heal!.getKernels({ X, Y })[0]!.run(new KernelArguments(kernels.heal!, { X, Y }))
    install(UNPARSABLE)
    for (let i = 0; i < 2; i++) expect((await errorOf(run)).code).toBe('KTL5013')
    install('')
    await run()
    expect([...((await Y.toArray()) as Float32Array)]).toEqual([42, 42, 42, 42])
  })

  test('so does that of CUDA C++', async () => {
    const source = 'extern "C" __global__ void nothing(int* x) { *x = 1; }'
    install(UNPARSABLE)
    expect((await errorOf(() => device.compileCuda(source))).code).toBe('KTL5013')
    install('')
    expect((await device.compileCuda(source)).functions).toEqual(['nothing'])
  })

  test('and KTL4013', async () => {
    const source = 'extern "C" __global__ void fill(int* x) { x[threadIdx.x] = 7; }'
    install(RENAMED)
    const module = await device.compileCuda(source)
    expect((await errorOf(async () => module.function('fill'))).code).toBe('KTL4013')
    install('')
    expect((await device.compileCuda(source)).function('fill').name).toBe('fill')
  })
})
