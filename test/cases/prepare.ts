/** Cases for tests: the pipeline program of the kernel that one asks for goes through the verifier before it runs. */
import { pipelineOf } from '../../codegen/index.ts'
import type { Device } from '../../runtime/devices/device.ts'
import type { DeviceCase } from '../../runtime/selftest/case.ts'
import { prepareCase as prepare, type PreparedCase } from '../../runtime/selftest/run_case.ts'
import { verified } from '../compiler/support.ts'

export async function prepareCase(device: Device, testCase: DeviceCase): Promise<PreparedCase> {
  const prepared = await prepare(device, testCase)
  const program = prepared.kernel && pipelineOf(prepared.kernel.plan)
  if (program) verified(program)
  return prepared
}
