import { promises as fs } from 'node:fs'
import path from 'node:path'
import { packageRoot } from '../files/package_root.ts'
import type { DeviceCase } from './case.ts'

/** The device cases that the tests run, too. */
export async function deviceCases(): Promise<readonly DeviceCase[]> {
  return JSON.parse(await fs.readFile(path.join(packageRoot(), 'test/cases/device.json'), 'utf8')) as DeviceCase[]
}
