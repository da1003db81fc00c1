import type { Device } from '../../devices/device.ts'
import { ktlError } from '../../errors/fail.ts'
import { OK, refuse, type Status } from '../../errors/status.ts'
import { describe } from '../../errors/describe.ts'
import { listOf } from '../../errors/given.ts'

/**
 * Whether a device runs code for one of the targets: `sm_100a` is that very device, `sm_100f` its family (10.x, no older
 * than 10.0), `sm_80` every later one too, and a number the compute capability itself. KTL4038 says what it is instead;
 * KTL4015 for what names no target.
 *
 * @example
 * console.log(deviceSupports(device, ['sm_100a', 'sm_103a']).ok, deviceSupports(device, [90]).ok)
 */
export function deviceSupports(device: Device, targets: readonly (string | number)[]): Status {
  if (typeof device?.arch !== 'string')
    throw ktlError('KTL4015', { what: 'device', expected: 'a device', got: describe(device) })
  if (listOf('targets', targets, 'targets').some((target) => runs(device, target))) return OK
  return refuse('KTL4038', { expected: targets.join(', '), got: device.arch })
}

function runs({ arch, cc }: Device, target: string | number): boolean {
  if (typeof target === 'number') return cc === target
  const [, digits, suffix] = /^sm_(\d{2,3})([af]?)$/.exec(typeof target === 'string' ? target : '') ?? []
  if (digits === undefined)
    throw ktlError('KTL4015', {
      what: 'targets',
      expected: 'targets such as sm_100a, sm_100f or sm_80',
      got: describe(target),
    })
  const wanted = Number(digits)
  if (suffix === 'a') return arch === target
  if (suffix === 'f') return Math.floor(cc / 10) === Math.floor(wanted / 10) && cc >= wanted
  return cc >= wanted
}
