/**
 * `npm run playground [-- FOLDER]`: the page as a site of files, for any static host. The default is dist/playground-site. Prints the folder.
 */
import { cpSync } from 'node:fs'
import path from 'node:path'

const root = path.join(import.meta.dirname, '..')
const folder = path.resolve(process.argv[2] ?? path.join(root, 'dist/playground-site'))
cpSync(path.join(root, 'dist/playground'), folder, { recursive: true })
console.log(path.relative('', folder) || '.')
