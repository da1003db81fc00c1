/** The type checker of TypeScript on a text that imports the package's sources. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { ROOT } from '../root.ts'

/** Where files in `folder` import the package from. */
export const entryFrom = (folder: string): string => `${path.relative(folder, ROOT)}/runtime/index.ts`

/** Errors of modules that are written to `folder`, by their names; a line each: `name.mts(12,3): error TS…`. */
export function typeErrorsOf(folder: string, modules: Readonly<Record<string, string>>): string[] {
  const files = Object.keys(modules).map((name) => `${name}.mts`)
  for (const [name, text] of Object.entries(modules)) writeFileSync(path.join(folder, `${name}.mts`), text)
  const typeRoots = [path.join(ROOT, 'node_modules/@types')]
  const compilerOptions = { noEmit: true, noUnusedLocals: false, rootDir: '/', typeRoots }
  const config = { extends: path.join(ROOT, 'tsconfig.json'), compilerOptions, include: [], files }
  writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify(config))
  const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc')
  const { stdout } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' })
  if (stdout.includes('error TS5')) throw new Error(stdout)
  return stdout.split('\n').filter((line) => /error TS/.test(line) && files.some((file) => line.includes(file)))
}
