/** Which declarations a package needs: for `build.mjs` and `release.mjs`. */
import * as fs from 'node:fs'
import path from 'node:path'

/** Removes from `folder` what cannot be reached from `entries`, paths of declarations in it: it is of no use to those who import the package. */
export function keepReachable(folder, entries) {
  const reached = new Set()
  const reach = (file) => {
    if (reached.has(file) || !fs.existsSync(file)) return
    reached.add(file)
    for (const [, name] of fs.readFileSync(file, 'utf8').matchAll(/(?:from|import)\s*\(?['"](\.[^'"]+)['"]/g))
      reach(path.resolve(path.dirname(file), name.replace(/\.[jt]s$/, '.d.ts')))
  }
  for (const entry of entries) reach(path.resolve(entry))
  for (const entry of fs.readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const file = path.resolve(entry.parentPath ?? entry.path, entry.name)
    if (entry.isFile() && !reached.has(file)) fs.rmSync(file)
  }
}

/** Of a manifest: the declarations of what it exports, relative to it. */
export const declaredIn = ({ exports }) => Object.values(exports).flatMap(({ types }) => types ?? [])
