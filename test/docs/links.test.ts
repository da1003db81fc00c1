/** Links of the docs lead to files and headings that there are. */
import { existsSync, statSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../root.ts'
import { anchorsOf, linksOf, PAGES } from './pages.ts'

test.each(PAGES)('%s', (page) => {
  const broken = linksOf(page).filter((link) => {
    if (/^https?:/.test(link)) return false
    const [file, anchor] = link.split('#') as [string, string?]
    const target = file === '' ? page : path.join(path.dirname(page), file)
    // The site has a page or a copy for each file, and nothing for folders.
    if (!existsSync(path.join(ROOT, target)) || statSync(path.join(ROOT, target)).isDirectory()) return true
    return anchor !== undefined && !anchorsOf(target).has(anchor)
  })
  expect(broken).toEqual([])
})
