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

/**
 * Files that are compiled as one: headers are most of the work of a small one, and what templates give is made once. Each list has what
 * one reads together, and no two names alike in it; files of none are compiled alone. Those that take longest are first.
 */
const UNITS = {
  integers: 'exec_integer exec_move exec_resize exec_video',
  memory: 'address exec_atomic exec_memory exec_remote memory',
  values: 'exec_compare exec_convert formats',
  floats: 'exec_builtin exec_float exec_half exec_stochastic',
  parser: 'ptx_* loader decode decode_table',
  barriers: 'async exec_async exec_barrier exec_collective exec_control exec_lanes exec_launch_control mbarrier',
  order: 'exec_copy ordering ordering_tmem taint',
  wgmma: 'exec_wgmma sparse wgmma wgmma_fragments',
  umma: 'column_mask exec_umma instruction_descriptor matrix_operand smem_descriptor umma umma_plan umma_scales',
  copies: 'exec_bulk exec_tensormap scatter tma tma_reduce',
  results: 'cluster_queue launch_* print_format special_register timing trace traffic',
  machine: 'cta machine scheduler warp',
  fragments: 'exec_matrix exec_mma exec_wmma mma_tile',
  tmem: 'exec_tmem tensor_map tmem',
  cuda: 'addon_cuda addon_device nvrtc',
  addon: 'addon addon_launch addon_result addon_values',
  driver: 'driver error gpu library module staging waiter',
}

/** The lists as files that include their members, and the files of none. What has not changed is not written again. */
function units(files) {
  const left = new Set(files)
  const made = Object.entries(UNITS).flatMap(([name, list]) => {
    const pattern = new RegExp(`^(${list.replaceAll('*', '\\w+').replaceAll(' ', '|')})$`)
    const members = [...left].filter((file) => pattern.test(path.basename(file, '.cc')))
    if (members.length === 0) return []
    members.forEach((file) => left.delete(file))
    const unit = `build/units/${name}.cc`
    const text = members.map((file) => `#include "../../${file}"\n`).join('')
    const at = path.join(__dirname, unit)
    fs.mkdirSync(path.dirname(at), { recursive: true })
    if (!fs.existsSync(at) || fs.readFileSync(at, 'utf8') !== text) fs.writeFileSync(at, text)
    return [unit]
  })
  return [...made, ...left]
}

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
  virtual: () => units(sources('src/virtual')),
  addon: () => units(sources('src').filter((file) => !file.startsWith('src/virtual/'))),
  include: () => [require('node-addon-api').include],
  libc: () => [process.report.getReport().header.glibcVersionRuntime ? 'glibc' : 'other'],
  runtime: () => [hasStaticRuntime() ? 'static' : 'shared'],
  wraps: () => wrapped().map((name) => `-Wl,--wrap=${name}`),
}

console.log(ANSWERS[process.argv[2]]().join('\n'))
