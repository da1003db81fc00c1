// Answers what binding.gyp asks: `node config.cjs QUESTION`, one answer a line.
const fs = require('node:fs')
const path = require('node:path')
const { execFileSync } = require('node:child_process')

const sources = (folder) =>
  fs
    .readdirSync(path.join(__dirname, folder), { recursive: true })
    .filter((file) => file.endsWith('.cc'))
    .sort()
    .map((file) => `${folder}/${file}`)

/** Distributions have it in a package of its own, or not at all. */
function hasStaticRuntime() {
  const [file, ...args] = (process.env.CXX ?? 'g++').split(' ')
  try {
    return path.isAbsolute(execFileSync(file, [...args, '-print-file-name=libstdc++.a'], { encoding: 'utf8' }).trim())
  } catch {
    return false
  }
}

/** What src/glibc_symbols.cc defines as `__wrap_…`. */
const wrapped = () =>
  [...fs.readFileSync(path.join(__dirname, 'src/glibc_symbols.cc'), 'utf8').matchAll(/^KTL_FIRST_VERSION\([^,]+, (\w+)/gm)]
    .map(([, name]) => name)
    .concat('arc4random')

const ANSWERS = {
  virtual: () => sources('src/virtual'),
  addon: () => sources('src').filter((file) => !file.startsWith('src/virtual/')),
  include: () => [require('node-addon-api').include],
  libc: () => [process.report.getReport().header.glibcVersionRuntime ? 'glibc' : 'other'],
  runtime: () => [hasStaticRuntime() ? 'static' : 'shared'],
  wraps: () => wrapped().map((name) => `-Wl,--wrap=${name}`),
}

console.log(ANSWERS[process.argv[2]]().join('\n'))
