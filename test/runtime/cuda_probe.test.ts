import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterEach, describe, expect, test } from 'vitest'
import { builtAddon, probeAddon } from '../../runtime/addon/load.ts'
import { probeCuda, probeNvrtc } from '../../runtime/addon/probe.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { errorOf } from './errors.ts'
import { buildFakeDriver, noFakeDriver, type FakeSetup } from './fake_driver.ts'

const addon = probeAddon()
const noAddon = addon.addon === null ? 'needs the native addon' : ''

afterEach(() => {
  delete process.env.KTL_CUDA_DRIVER
  delete process.env.KTL_NVRTC
})

describe.skipIf(noAddon !== '')(`without a driver${noAddon && ` (${noAddon})`}`, () => {
  test('probing says why, as data', () => {
    process.env.KTL_CUDA_DRIVER = '/nonexistent/libcuda.so'
    process.env.KTL_NVRTC = '/nonexistent/libnvrtc.so'
    expect(probeCuda().reason).toMatch(/^there is no NVIDIA driver \(.*\/nonexistent\/libcuda\.so/)
    expect(probeNvrtc().reason).toContain('/nonexistent/libnvrtc.so')
  })

  test('opening `cuda` is KTL6005 with the reason; `auto` is the virtual device', async () => {
    process.env.KTL_CUDA_DRIVER = '/nonexistent/libcuda.so'
    const error = await errorOf(() => openDevice('cuda'))
    expect(error).toMatchObject({ code: 'KTL6005' })
    expect(error.message).toContain('there is no NVIDIA driver')
    await using device = await openDevice('auto')
    expect(device.name).toBe('virtual-sm100')
  })
})

const skipped = noAddon || noFakeDriver

describe.skipIf(skipped !== '')(`drivers that will not do${skipped && ` (${skipped})`}`, () => {
  const reasonWith = async (setup: FakeSetup, spec = 'cuda') => {
    process.env.KTL_CUDA_DRIVER = buildFakeDriver(setup).path
    return (await errorOf(() => openDevice(spec as 'cuda'))).message
  }

  test('too old', async () => {
    expect(await reasonWith({ version: 12020 })).toContain(
      'the driver is too old: it knows CUDA 12.2, ktl needs CUDA 12.4 (driver 550) or later',
    )
  })

  test('no GPU', async () => {
    expect(await reasonWith({ devices: 0 })).toContain('the driver sees no GPU')
    expect(await reasonWith({ devices: -1 })).toContain('the driver sees no GPU')
  })

  test('no such GPU', async () => {
    const message = await reasonWith({ devices: 1 }, 'cuda:3')
    expect(message).toContain('device `cuda:3` is not available: this machine has 1 GPU, cuda:0')
  })

  test('a GPU that no kernel is made for, which `auto` passes over', async () => {
    expect(await reasonWith({ cc: 75 })).toContain('Fake GPU 0 has compute capability 7.5, kernels need 8.0 or later')
    await using device = await openDevice('auto')
    expect(device.name).toBe('virtual-sm100')
  })

  test.each([
    [80, 'sm_80', 'cubin'],
    [89, 'sm_80', 'cubin'],
    [90, 'sm_90a', 'cubin'],
    [100, 'sm_100a', 'cubin'],
    [103, 'sm_103a', 'cubin'],
    [120, 'sm_80', 'ptx'],
  ])('compute capability %i takes %s, as %s; `auto` is that GPU', async (cc, arch, moduleFormat) => {
    process.env.KTL_CUDA_DRIVER = buildFakeDriver({ cc }).path
    await using device = await openDevice('auto')
    expect(device).toMatchObject({ name: 'cuda:0', cc, arch, moduleFormat })
  })

  test('every thread has a device of its own, with its context current', async () => {
    const driver = buildFakeDriver()
    const source = `
      const { parentPort, workerData } = require('node:worker_threads')
      const { CudaDevice } = require(workerData.addon)
      const device = new CudaDevice(workerData.driver, workerData.ordinal)
      const at = device.allocate(64)
      device.fill(0, at, 3, 64)
      device.read(0, at, 64).then((bytes) => {
        device.free(at)
        device.close()
        parentPort.postMessage(bytes.reduce((a, b) => a + b, 0))
      })`
    const run = (ordinal: number): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const workerData = { addon: addon.path ?? builtAddon(), driver: driver.path, ordinal }
        const worker = new Worker(source, { eval: true, workerData })
        let sum: unknown
        worker.once('message', (value) => (sum = value))
        worker.once('error', reject)
        worker.once('exit', () => resolve(sum))
      })
    expect(await Promise.all([run(0), run(1), run(0), run(1)])).toEqual([192, 192, 192, 192])
    const devices = driver.calls('malloc').map(({ device }) => device)
    expect(devices.sort()).toEqual([0, 0, 1, 1])
  })

  test('a thread that ends in the middle of a copy takes nothing along', async () => {
    const driver = buildFakeDriver()
    const source = `
      const { workerData } = require('node:worker_threads')
      const { CudaDevice } = require(workerData.addon)
      const device = new CudaDevice(workerData.driver, 0)
      for (let i = 0; i < 50; i++) device.read(0, device.allocate(4096), 4096)
      process.exit(0)`
    for (let i = 0; i < 4; i++) {
      const worker = new Worker(source, { eval: true, workerData: { addon: addon.path, driver: driver.path } })
      await new Promise((resolve) => worker.once('exit', resolve))
    }
    expect(driver.calls('read').length).toBe(200)
  })
})

/** `cuda.h` of a toolkit, where there is one. */
describe('the driver interface', () => {
  const nvcc = spawnSync('sh', ['-c', 'readlink -f "$(command -v nvcc)"']).stdout.toString().trim()
  const folders = [process.env.CUDA_HOME, '/usr/local/cuda', ...fs.readdirSync('/usr/local').filter((n) => n.startsWith('cuda-')).map((n) => `/usr/local/${n}`), nvcc && path.dirname(path.dirname(nvcc))] // prettier-ignore
  const include = folders.map((folder) => `${folder}/include`).find((folder) => fs.existsSync(`${folder}/cuda.h`))
  const missing = noFakeDriver || (include === undefined ? 'needs cuda.h of a toolkit' : '')

  test.skipIf(missing !== '')(`is the one of cuda.h${missing && ` (${missing})`}`, () => {
    const { stderr, status } = spawnSync('g++', ['-std=c++20', '-fsyntax-only', '-I', include!, 'native/tests/driver_abi.cc']) // prettier-ignore
    expect(stderr.toString()).not.toContain('error')
    expect(status).toBe(0)
  })
})
