/** Which instance of a kernel the page runs: that whose CUDA it shows. PTX of it is made before (site.ts). */
import type { KernelFamily } from '../../compiler/family.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import { targetOf } from '../../compiler/targets/index.ts'
import { instancesOf, noInstance, Rejections } from '../../runtime/cli/instances.ts'
import type { Pairs } from '../../runtime/cli/options.ts'
import { ordered } from '../../runtime/cli/timeline.ts'
import { FamilySpace } from '../../runtime/discovery/space/space.ts'
import type { PlannedInstance } from '../../runtime/discovery/space/planned.ts'

/** Targets that the virtual device has. */
export const RUN_TARGETS = ['sm_100a', 'sm_90a'] as const

/** `withRoles`: the first that has any, for a timeline. KTL4107: there is none, and why. */
export function instanceOf(family: KernelFamily, target: TargetArch, { withRoles = false } = {}): PlannedInstance {
  const rejected = new Rejections()
  const space = new FamilySpace(family, false)
  for (const instance of instancesOf(space, { target }, rejected))
    if (!withRoles || targetOf(instance.plan).pipeline) return instance
  throw noInstance(`${family.name} for ${target}`, rejected, { target }, [space])
}

/** So that operands are made as the instance takes them. */
export function choiceOf({ choice: { types, orders } }: PlannedInstance): { readonly type: Pairs; readonly order: Pairs } {
  return {
    type: types,
    order: Object.fromEntries(Object.entries(orders).map(([name, axes]) => [name, ordered(axes)])),
  }
} // prettier-ignore

/** The file of a CUDA text's PTX below `ptx/`: by FNV-1a of 64 bits, and its length. */
export function ptxFile(cuda: string, arch: string): string {
  let hash = 0xcbf29ce484222325n
  for (const byte of new TextEncoder().encode(`${arch}\n${cuda}`))
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n)
  return `${hash.toString(16).padStart(16, '0')}-${cuda.length}.bin`
}
