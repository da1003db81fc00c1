/** Which members the declarations show of what devices make: what users may use, and nothing else. Asked of the type checker. */
import { mkdtempSync, rmSync } from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { entryFrom, typeErrorsOf } from './type_check.ts'

const MEMBERS: Readonly<Record<string, string>> = {
  Device: `name kind isVirtual arch cc smCount l2Bytes properties moduleFormat closed defaultStream tensor empty createStream
    createEvent capture synchronize loadModule compileCuda tensorMap malloc free write read memset memoryInfo close asyncDispose`,
  Stream: 'device idle capturing enqueue synchronize',
  DeviceEvent: 'record synchronize elapsedMs',
  Graph: 'launch free dispose',
  Tensor: `device dtype shape strides pointer elementCount byteLength rank freed overlaps toArray toBytes copyFrom recordUse view
    reshape permute slice as free toString dispose`,
  DeviceModule: 'device functions ptx sources function global',
  DeviceFunction: 'module name params paramBytes staticSharedBytes registers maxThreads launch enqueue',
  'Kernel<ktl.RuntimeArguments>': `metadata rankReason supports supportsArguments compile launch getWorkspaceSize estimate run
    toString`,
  PreparedLaunch: 'launch driverTime rebind',
}

const keyOf = (member: string): string => (/^(asyncD|d)ispose$/.test(member) ? `[Symbol.${member}]` : member)

/** A line for each type: one that lacks a member, or has another, is an error that names it. */
const textOf = (members: typeof MEMBERS): string =>
  Object.entries(members)
    .map(([type, list], i) => {
      const fields = list.split(/\s+/).map((member) => `${keyOf(member)}: 0`)
      return `export const t${i}: { [K in keyof Required<ktl.${type}>]: 0 } = { ${fields.join(', ')} }`
    })
    .join('\n')

let folder: string
beforeAll(() => void (folder = mkdtempSync(path.join(os.tmpdir(), 'ktl-members-'))))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Numbers of the lines with errors, and the errors. */
const errorsOf = (text: string): string[] =>
  typeErrorsOf(folder, { members: `import type * as ktl from '${entryFrom(folder)}'\n${text}` })

test('are these', () => {
  expect(errorsOf(textOf(MEMBERS))).toEqual([])
})

test('one that is missing, or too many, would be seen', () => {
  const { Device, Graph } = MEMBERS
  const changed = { Device: Device!.replace('malloc ', ''), Graph: `${Graph} handle` }
  const errors = errorsOf(textOf(changed))
  expect(errors).toHaveLength(2)
  expect(errors[0]).toContain("'malloc'")
  expect(errors[1]).toContain("'handle'")
})
