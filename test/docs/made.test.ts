/** Pages and pictures that programs write are what they write. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { CALLS, commandsOfKtl } from '../../docs/make/command_line.ts'
import { madeFiles, stale } from '../../docs/make/main.ts'
import { samplesOf, SECTIONS } from '../../docs/gallery.ts'
import { ROOT } from '../root.ts'

const files = await madeFiles(false, false)

test('are what `npx tsx docs/make/main.ts` writes', () => expect(stale(files)).toEqual([]))

test('a page that differs is seen', () => {
  expect(stale({ 'gallery.md': `${files['gallery.md']} `, 'none.md': '' })).toEqual(['gallery.md', 'none.md'])
})

test('nothing else lies between them', () => {
  const below = (folder: string): string[] => readdirSync(path.join(ROOT, 'docs', folder)).map((name) => `${folder}/${name}`) // prettier-ignore
  const others = [...below('reference'), ...below('pictures')].filter((name) => !(name in files))
  // Runs of nvcc's code: made with `--timelines`.
  expect(others).toEqual(['sm100', 'sm90-measured', 'sm90'].map((name) => `pictures/timeline-${name}.svg`))
})

test('every sample has its place in the gallery, once', () => {
  expect(SECTIONS.flatMap(({ samples }) => samples).sort()).toEqual(samplesOf())
})

test('every command has a call, and the page every option of `--help`', () => {
  const page = readFileSync(path.join(ROOT, 'docs/reference/command-line.md'), 'utf8')
  const { commands } = commandsOfKtl()
  expect(Object.keys(CALLS)).toEqual(commands.map((command) => command.name()))
  for (const command of commands) {
    const help = command.helpInformation()
    const section = page.split(`## ktl ${command.name()}\n`)[1]!.split('\n## ')[0]!
    for (const [option] of help.matchAll(/^ {2}--[\w-]+/gm)) if (option.trim() !== '--help') expect(section).toContain(option.trim()) // prettier-ignore
  }
})

test('every tutorial is in the list', () => {
  const page = readFileSync(path.join(ROOT, 'docs/tutorials.md'), 'utf8')
  const listed = [...page.matchAll(/samples\/tutorials\/([\w-]+)\/README/g)].map(([, name]) => name)
  expect(listed).toEqual(readdirSync(path.join(ROOT, 'samples/tutorials')).sort())
})
