/** What each target has for a kernel, without any tensors: which designs take it, and why the others do not. */
import { isRejection } from '../../../compiler/rejection.ts'
import type { KernelFamily, TypeChoice } from '../../../compiler/family.ts'
import { ARCH_NAMES, type TargetArch } from '../../../compiler/archs.ts'
import { offTensorCores, type Backend } from '../../../compiler/targets/index.ts'
import { FamilySpace } from './space.ts'

/** Choices of types that fare alike on a target. */
export interface TargetSupport {
  readonly target: TargetArch
  readonly types: readonly TypeChoice[]
  /** Those that have instances, tensor cores first; none: the target refuses the kernel. */
  readonly designs: readonly Backend[]
  /** Those that have none, or none on tensor cores, as they are tiled for. */
  readonly refused: readonly {
    readonly design: Backend
    readonly code: string
    readonly reason: string
    readonly fix?: string
  }[]
}

/** Every legal choice of types on every target, with aligned operands in their logical orders and no epilogue in the slot. */
export function targetSupport(family: KernelFamily): readonly TargetSupport[] {
  const space = new FamilySpace(family, false)
  return ARCH_NAMES.flatMap((target) => {
    const alike = new Map<string, { -readonly [K in keyof TargetSupport]: TargetSupport[K] }>()
    for (const types of family.typeChoices) {
      const designs: Backend[] = []
      const refused: TargetSupport['refused'][number][] = []
      for (const { backend: design, first } of space.fares(target, types)) {
        if (first && isRejection(first))
          refused.push({ design, code: first.code, reason: first.reason, ...(first.fix && { fix: first.fix }) })
        else if (first) {
          designs.push(design)
          const off = offTensorCores(first)
          if (off) refused.push({ design, code: off.code, reason: off.reason })
        }
      }
      const key = JSON.stringify([designs, refused])
      const known = alike.get(key)
      if (known) known.types = [...known.types, types]
      else alike.set(key, { target, types: [types], designs, refused })
    }
    return [...alike.values()]
  })
}
