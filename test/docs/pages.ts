/** The pages of the docs: their code blocks with what is said above them, their headings and links. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { ROOT } from '../root.ts'

export interface Block {
  readonly page: string
  /** Of the fence, from 1. */
  readonly line: number
  readonly language: string
  readonly text: string
  /** The comment above it: `<!-- run --dims … -->`. */
  readonly directive: string | null
}

const inFolder = (folder: string): string[] =>
  readdirSync(path.join(ROOT, folder)).filter((name) => name.endsWith('.md')).map((name) => `${folder}/${name}`) // prettier-ignore

/** Written by hand; those that programs write are compared with what they write. */
export const WRITTEN: readonly string[] = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...inFolder('docs').filter((name) => name !== 'docs/gallery.md'),
]
export const PAGES: readonly string[] = [
  ...WRITTEN,
  'docs/gallery.md',
  ...inFolder('docs/reference'),
  'bench/README.md',
  'samples/apps/README.md',
  ...readdirSync(path.join(ROOT, 'samples/tutorials')).map((name) => `samples/tutorials/${name}/README.md`),
]

export const textOf = (page: string): string => readFileSync(path.join(ROOT, page), 'utf8')

export function blocksOf(page: string): Block[] {
  const found: Block[] = []
  const lines = textOf(page).split('\n')
  for (let i = 0; i < lines.length; i++) {
    const [, fence, language] = /^(`{3,})(\w*)/.exec(lines[i]!) ?? []
    if (fence === undefined) continue
    const end = lines.findIndex((line, at) => at > i && line === fence)
    const above = lines.slice(0, i).reverse().find((line) => line.trim() !== '') // prettier-ignore
    const directive = /^<!-- (.*) -->$/.exec(above ?? '')?.[1] ?? null
    found.push({ page, line: i + 1, language: language!, text: lines.slice(i + 1, end).join('\n'), directive })
    i = end
  }
  return found
}

/** Text without code blocks and inline code. */
const proseOf = (page: string): string =>
  textOf(page)
    .replaceAll(/^(`{3,})\w*\n[\s\S]*?^\1$/gm, '')
    .replaceAll(/``.*?``|`[^`\n]*`/g, (code) => '`'.repeat(code.length))

export const linksOf = (page: string): string[] =>
  [...proseOf(page).matchAll(/\]\(([^()\s]+)\)/g)].map(([, target]) => target!)

/** What headings are called in links, as GitHub and the site have it. */
export function anchorsOf(page: string): Set<string> {
  const headings = textOf(page).replaceAll(/^(`{3,})\w*\n[\s\S]*?^\1$/gm, '').matchAll(/^#{1,6} (.*)$/gm) // prettier-ignore
  return new Set([...headings].map(([, text]) => slug(text!)))
}

const slug = (text: string): string =>
  text.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').trim().replaceAll(/\s/g, '-') // prettier-ignore

/** Words of a command line; quotes keep blanks. */
export const wordsOf = (command: string): string[] =>
  [...command.matchAll(/'([^']*)'|"([^"]*)"|([^\s'"]+)/g)].map(([, single, double, bare]) => single ?? double ?? bare!)
