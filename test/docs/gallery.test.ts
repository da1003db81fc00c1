/** The gallery shows every sample as it is. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { GALLERY, gallery, samplesOf, SECTIONS } from '../../docs/gallery.ts'

test('every sample has its place in the gallery, once', () => {
  expect(SECTIONS.flatMap(({ samples }) => samples).sort()).toEqual(samplesOf())
})

test('docs/gallery.md is what `npx tsx docs/gallery.ts` writes', () => {
  expect(readFileSync(GALLERY, 'utf8')).toBe(gallery())
})
