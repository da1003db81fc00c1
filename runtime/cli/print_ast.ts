/** The syntax tree as indented text: a line for each node with its own values, its children below. Spans are left out. */
import type { Program } from '../../grammar/ast.ts'

interface TreeNode {
  readonly kind: string
  readonly [field: string]: unknown
}

const isNode = (value: unknown): value is TreeNode =>
  typeof value === 'object' && value !== null && typeof (value as { kind?: unknown }).kind === 'string'

export const printAst = (program: Program): string => `${print(program as unknown as TreeNode, '').join('\n')}\n`

function print(node: TreeNode, label: string): string[] {
  const own: string[] = []
  const below: string[] = []
  for (const [field, value] of Object.entries(node)) {
    if (field === 'kind' || field === 'span' || value === null) continue
    const items = Array.isArray(value) ? value : [value]
    if (items.length === 0) continue
    // Names and types of names are part of the line.
    if (items.every(isPlain)) own.push(`${field}=${items.map(plain).join(',')}`)
    else items.forEach((item) => below.push(...print(item as TreeNode, `${field}: `).map((line) => `  ${line}`)))
  }
  return [[`${label}${node.kind}`, ...own].join(' '), ...below]
}

const isPlain = (value: unknown): boolean => !isNode(value) || value.kind === 'name' || value.kind === 'typeName'
const plain = (value: unknown): string =>
  isNode(value) ? String(value['text']) : typeof value === 'string' ? JSON.stringify(value) : String(value)
