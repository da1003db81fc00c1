/** Axis sets are lists in the kernel's order: one spelling per set, so they compare and print stably. */

/** The union of axis sets, in the order of `all`. */
export function unionAxes(all: readonly string[], ...sets: (readonly string[])[]): readonly string[] {
  return all.filter((axis) => sets.some((set) => set.includes(axis)))
}

export function withoutAxes(axes: readonly string[], removed: readonly string[]): readonly string[] {
  return axes.filter((axis) => !removed.includes(axis))
}

export function sameAxes(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((axis) => b.includes(axis))
}

export function isSubset(a: readonly string[], b: readonly string[]): boolean {
  return a.every((axis) => b.includes(axis))
}
