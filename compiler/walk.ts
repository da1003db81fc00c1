/** Walks over tensor IR that several planners need. */
import type { Node } from './tensor_ir.ts'

export function children(node: Node): readonly Node[] {
  switch (node.kind) {
    case 'input':
    case 'scalar':
    case 'const':
    case 'size':
      return []
    case 'contract':
      return [node.a, node.b]
    case 'reduce':
    case 'cast':
      return [node.value]
    case 'apply':
      return node.args
    case 'skip0':
      return [node.scale, node.value]
  }
}

/** Every node once, children before parents. `stop` nodes are visited, their children are not. */
export function* postorder(roots: readonly Node[], stop?: Node): Generator<Node> {
  const seen = new Set<Node>()
  const visit = function* (node: Node): Generator<Node> {
    if (seen.has(node)) return
    seen.add(node)
    if (node !== stop) for (const child of children(node)) yield* visit(child)
    yield node
  }
  for (const root of roots) yield* visit(root)
}

/** Names of the input operands that `roots` read, in order of first use, leaving out what only `stop` reads. */
export function operandsOf(roots: readonly Node[], stop: Node): string[] {
  const names = new Set<string>()
  for (const node of postorder(roots, stop)) if (node.kind === 'input') names.add(node.operand)
  return [...names]
}

/**
 * The scale that lets a load of `operand` be left out: set when every use of it lies under a `skip0` of one and
 * the same scale.
 */
export function guardOf(roots: readonly Node[], operand: string): Node | null {
  const guards = new Set<Node | null>()
  const seen = new Map<Node, Set<Node | null>>()
  const visit = (node: Node, guard: Node | null): void => {
    const under = seen.get(node) ?? new Set()
    if (under.has(guard)) return
    seen.set(node, under.add(guard))
    if (node.kind === 'input' && node.operand === operand) guards.add(guard)
    if (node.kind === 'skip0') {
      visit(node.scale, guard)
      visit(node.value, node.scale)
    } else for (const child of children(node)) visit(child, guard)
  }
  for (const root of roots) visit(root, null)
  const [only] = guards
  return guards.size === 1 ? (only ?? null) : null
}
