/** A case of one kernel and the schedule that it is for. */
import type { DeviceCase } from '../../runtime/selftest/case.ts'

export type Design = DeviceCase['design']

const ON: Readonly<Record<Design['kind'], string>> = { simt: 'simt', sm80: 'sm_80', sm90: 'sm_90', sm100: 'sm_100' }

/** `schedule`: its lines; `body`: operands, outputs and equations. Inputs are integers, unless `rest` says otherwise. */
export const scheduled = (
  name: string,
  kernel: string,
  design: Design,
  schedule: string,
  body: string,
  extents: DeviceCase['extents'],
  rest: Partial<DeviceCase> = {},
): DeviceCase => ({
  name,
  kernel,
  source: `kernel ${kernel}${body}\nschedule ${kernel} on ${ON[design.kind]} {\n  ${schedule}\n}\n`,
  types: {},
  design,
  extents,
  operands: {},
  inputs: 'integers',
  ...rest,
})
