/**
 * 50xx: findings of the virtual device. The device words the message itself (it knows addresses, parities and byte
 * counts); an entry says what the finding means. Numbers are those of native/src/virtual/findings.h.
 */
import { access } from './device_access.ts'
import { barriers } from './device_barriers.ts'
import type { Reported } from './device_finding.ts'
import { machine } from './device_machine.ts'
import { tensorUnits } from './device_tensor.ts'

export type { Reported }
export const device = { ...access, ...barriers, ...tensorUnits, ...machine }
