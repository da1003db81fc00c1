import * as fs from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { catalogue, RETIRED, type Entry, type Example } from '../../grammar/catalogue/index.ts'
import { probeAddon } from '../../runtime/addon/load.ts'
import * as ktl from '../../runtime/index.ts'
import type { DeviceModule } from '../../runtime/modules/module.ts'
import { findNvcc } from '../../runtime/toolchain/nvcc.ts'
import {
  codesOfCall,
  codesOfCommand,
  codesOfEpilogue,
  codesOfLowering,
  codesOfProgram,
  evaluate,
  type Scope,
} from './run_example.ts'
import { createScope, type Ktl } from './scope.ts'

/** Codes that no snippet can produce, and why. Every other code has a wrong example and a right one. */
const WITHOUT_EXAMPLE: Readonly<Record<string, string>> = {
  KTL4109: 'another program has to listen on the port: test/runtime/playground.test.ts',
  KTL5018: 'a launch that is cancelled rejects with the reason of its signal',
  KTL5021: '`device.free` refuses the address first, with KTL4014',
  KTL6030: 'only a GPU is lost: test/runtime/cuda.test.ts',
  KTL6031: 'only a driver refuses: test/runtime/cuda.test.ts',
  KTL6032: 'only the memory of a GPU runs out so: test/runtime/cuda.test.ts',
  KTL6033: 'only a driver loads machine code: test/runtime/cuda.test.ts',
  KTL9001: 'stands for mistakes of ktl that are not known',
  KTL9002: 'only a compiler that is wrong lowers so: test/runtime/inspect_broken.test.ts',
}

const entries = Object.entries<Entry<any>>(catalogue)

test('every code has a wrong and a right example, but for those that cannot occur', () => {
  const lacking = entries.filter(([, { wrong, right }]) => !wrong || !right).map(([code]) => code)
  expect(lacking.sort()).toEqual(Object.keys(WITHOUT_EXAMPLE).sort())
  for (const [code, { wrong, right }] of entries) if (code in WITHOUT_EXAMPLE) expect(wrong ?? right).toBeUndefined()
})

test('codes that went out of use have no entry', () => {
  expect(RETIRED.filter((code) => code in catalogue)).toEqual([])
})

/** Codes that come with the one shown: it is about the errors before it, or the device looked for the cause of a hang. */
const COMPANIONS: Readonly<Record<string, readonly string[]>> = { KTL1018: ['KTL1004'], KTL5007: ['KTL5005'] }

/** Rejections of instances: there may be others for other reasons, also of the right example. */
const isRejection = (code: string): boolean => /^KTL(29|45)/.test(code)

const cases = entries.flatMap(([code, { wrong, right }]) =>
  wrong && right ? [{ code, wrong: wrong as Example, right: right as Example }] : [],
)
const kindOf = (example: Example): Kind => (Object.keys(KINDS) as Kind[]).find((kind) => kind in example)!
const hasNvcc = await findNvcc().then(() => true, () => false) // prettier-ignore
const hasDevice = probeAddon().addon !== null
const needsDevice = hasDevice ? '' : ' (skipped without the native addon)'
const needsBoth = needsDevice || (hasNvcc ? '' : ' (skipped without nvcc)')
/** Kinds of examples, and why this machine cannot run them, if so. */
const KINDS = { ktl: '', epilogue: '', call: needsBoth, command: needsBoth, cuda: needsBoth, ptx: needsDevice } as const
type Kind = keyof typeof KINDS

let scope: Scope
let close: () => Promise<unknown>
let compiled: DeviceModule
const before = process.cwd()
let folder: string

beforeAll(async () => {
  // Commands run where the samples are, and where what they write is nobody's.
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'ktl-examples-'))
  fs.symlinkSync(path.resolve('samples'), path.join(folder, 'samples'))
  process.chdir(folder)
  if (!hasDevice) return
  const created = await createScope(ktl)
  ;({ scope, close } = created)
  // One run of nvcc for all kernels: each in a namespace of its own.
  const texts = cases.flatMap(({ code, wrong, right }) =>
    Object.entries({ wrong, right }).flatMap(([side, example]) =>
      'cuda' in example ? [`namespace ${side}${code} {\n${example.cuda}\n}`] : [],
    ),
  )
  if (hasNvcc) compiled = await created.device.compileCuda(texts.join('\n'))
})
afterAll(async () => {
  process.chdir(before)
  fs.rmSync(folder, { recursive: true, force: true })
  await close?.()
})

/** With the variables set, `ktl` is loaded anew: what a process found out before would hide them. */
async function withEnvironment<T>(
  environment: Readonly<Record<string, string>>,
  work: (fresh: Ktl) => Promise<T>,
): Promise<T> {
  const saved = { ...process.env }
  Object.assign(process.env, environment)
  vi.resetModules()
  try {
    return await work(await import('../../runtime/index.ts'))
  } finally {
    for (const name of Object.keys(environment)) delete process.env[name]
    Object.assign(process.env, saved)
  }
}

async function codesOf(example: Example, code: string, side: 'wrong' | 'right'): Promise<string[]> {
  if ('ktl' in example) return isRejection(code) ? codesOfLowering(example.ktl) : codesOfProgram(example.ktl)
  if ('epilogue' in example) return codesOfEpilogue(example.epilogue)
  if ('command' in example) {
    const { command, environment } = example
    return environment ? withEnvironment(environment, () => codesOfCommand(command)) : codesOfCommand(command)
  }
  if ('call' in example) {
    const { call, environment } = example
    if (!environment) return codesOfCall(() => evaluate(call, scope))
    return withEnvironment(environment, (fresh) =>
      codesOfCall(async () => {
        const device = /\bdevice\b/.test(call) ? await fresh.openDevice('virtual-sm100') : undefined
        return evaluate(call, { ...fresh, device })
      }),
    )
  }
  return codesOfCall(async () => {
    const module = 'cuda' in example ? compiled : await (scope.device as ktl.Device).loadModule(example.ptx)
    const name = 'cuda' in example ? module.functions.find((n) => n.includes(`${side}${code}`)) : module.functions[0]
    return evaluate(example.launch, { ...scope, kernel: module.function(name!) })
  })
}

test('both examples of a code are of one kind', () => {
  for (const { code, wrong, right } of cases) expect(kindOf(right), code).toBe(kindOf(wrong))
})

describe.each(Object.entries(KINDS))('examples of the kind `%s`%s', (kind, skipped) => {
  const list = cases.filter(({ wrong }) => kindOf(wrong) === kind)
  test.skipIf(skipped !== '').each(list)('$code: the wrong one gives it, the right one nothing', async (entry) => {
    const { code, wrong, right } = entry
    const found = await codesOf(wrong, code, 'wrong')
    const none = await codesOf(right, code, 'right')
    expect(found).toContain(code)
    if (isRejection(code)) return expect(none).not.toContain(code)
    expect(none).toEqual([])
    // Programs may have consequences of the mistake; everything else has the one mistake.
    const others = found.filter((c) => c !== code && !COMPANIONS[code]?.includes(c))
    if (kind !== 'ktl') expect(others).toEqual([])
    else if (code.startsWith('KTL10')) expect(found.find((c) => !COMPANIONS[code]?.includes(c))).toBe(code)
  })
})

describe.skipIf(needsDevice !== '')(`codes without examples cannot occur${needsDevice}`, () => {
  const LOOP = `.version 9.0
    .target sm_100a
    .address_size 64
    .visible .entry forever() { again: bra again; }`
  test('KTL5018: a cancelled launch rejects with the reason of its signal', async () => {
    const module = await (scope.device as ktl.Device).loadModule(LOOP)
    const reason = new Error('enough')
    const controller = new AbortController()
    const launch = module.function('forever').launch({ grid: 1, block: 1, params: [], signal: controller.signal })
    setTimeout(() => controller.abort(reason), 20)
    await expect(launch).rejects.toBe(reason)
  })

  test('KTL5021: the address of a free is checked before the device sees it', async () => {
    const call = 'const pointer = device.malloc(256); device.free(pointer); device.free(pointer)'
    expect(await codesOfCall(() => evaluate(call, scope))).toEqual(['KTL4014'])
    expect(await codesOfCall(() => evaluate('device.free(device.malloc(256) + 4n)', scope))).toEqual(['KTL4014'])
  })
})
