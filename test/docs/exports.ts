/** What `ktl` exports, with the comment that stands above each declaration. */
import { readFileSync } from 'node:fs'
import path from 'node:path'

export interface Export {
  readonly name: string
  /** Erased types have no example to run. */
  readonly isType: boolean
  /** The file that declares it. */
  readonly file: string
  /** Text of its comment, without stars; empty: it has none. */
  readonly doc: string
}

const DECLARATION = (name: string): RegExp =>
  new RegExp(
    `^export (?:declare )?(abstract class|class|(?:async )?function\\*?|const|interface|type) ${name}\\b`,
    'gm',
  )

/** Exports of a module, followed through `export … from`. */
export function exportsOf(file: string): Export[] {
  const text = readFileSync(file, 'utf8')
  const found: Export[] = []
  for (const [, typeOnly, list, from] of text.matchAll(/^export (type )?(\{[^}]*\}|\*) from '([^']+)'/gm)) {
    const target = path.resolve(path.dirname(file), from!)
    if (list === '*') {
      found.push(...exportsOf(target))
      continue
    }
    for (const item of list!
      .slice(1, -1)
      .split(',')
      .map((part) => part.trim())) {
      if (item === '') continue
      const [, type, own, alias] = /^(type )?(\w+)(?: as (\w+))?$/.exec(item)!
      const declared = declarationOf(target, own!)
      found.push({ ...declared, name: alias ?? own!, isType: Boolean(typeOnly || type) })
    }
  }
  return found
}

/** Where a name is declared: in the file, or where the file has it from, by import or by export. */
function declarationOf(file: string, name: string): { readonly file: string; readonly doc: string } {
  const text = readFileSync(file, 'utf8')
  const places = [...text.matchAll(DECLARATION(name))].map(({ index }) => index)
  const docs = places.map((place) => commentBefore(text, place))
  if (docs.length > 0) return { file, doc: docs.sort((a, b) => b.length - a.length)[0]! }
  const passed = [...text.matchAll(/^(?:export|import) (?:type )?(\{[^}]*\}|\*) from '([^']+)'/gm)].filter(([, list]) => list === '*' || new RegExp(`\\b${name}\\b`).test(list!)) // prettier-ignore
  for (const [, , from] of passed) {
    const target = path.resolve(path.dirname(file), from!)
    const declared = declarationOf(target, name)
    if (declared.doc !== '' || declared.file !== target) return declared
  }
  return { file, doc: '' }
}

function commentBefore(text: string, place: number): string {
  const before = text.slice(0, place).trimEnd()
  if (!before.endsWith('*/')) return ''
  const start = before.lastIndexOf('/**')
  if (start < 0 || before.slice(start, -2).includes('*/')) return ''
  return before
    .slice(start + 3, -2)
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, ''))
    .join('\n')
    .trim()
}

/** The code of `@example`, up to the next tag; null: there is none. */
export function exampleOf(doc: string): string | null {
  const match = /^@example\n([\s\S]*?)(?=^@\w+|$(?![\s\S]))/m.exec(doc)
  return match ? match[1]!.trim() : null
}
