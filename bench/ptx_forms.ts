/**
 * Which forms of the asynchronous and tensor instructions ptxas accepts that the virtual device does not load: every combination of
 * modifiers and operands of a family, whether it makes sense or not, is shown to both.
 *
 *   npx tsx bench/ptx_forms.ts [FAMILY…]
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { NativeAddon, NativeLaunch } from '../runtime/addon/virtual.ts'

const addon = createRequire(import.meta.url)('../native/build/Release/ktl.node') as NativeAddon

type Target = 'sm_90a' | 'sm_100a' | 'sm_103a'
interface Family {
  readonly targets: readonly Target[]
  readonly forms: readonly string[]
}

/** The product of alternatives, joined. */
const product = (...parts: (readonly string[] | string)[]): string[] =>
  parts.reduce<string[]>(
    (all, part) => all.flatMap((x) => (typeof part === 'string' ? [part] : part).map((y) => x + y)),
    [''],
  )
const GROUPS = ['.cta_group::1', '.cta_group::2']
const ADDRESSES = ['[%rd1]', '[%r1]']

const tensorMaps = (rank: number) => `[%rd1, {${Array(rank).fill('%r2').join(', ')}}]`
const offsets = (count: number) => (count > 0 ? `, {${Array(count).fill('%h1').join(', ')}}` : '')
const MODES = [
  '',
  '.tile',
  '.tile::gather4',
  '.tile::scatter4',
  '.im2col',
  '.im2col::w',
  '.im2col::w::128',
  '.im2col_no_offs',
]
function tensorCopies(): string[] {
  return [1, 2, 3, 4, 5].flatMap((rank) =>
    MODES.flatMap((mode) =>
      [0, 1, 2, 3].flatMap((extra) => {
        const map = tensorMaps(mode.endsWith('4') ? 5 : rank)
        return [
          ...product('cp.async.bulk.tensor', `.${rank}d`, ['.shared::cluster', '.shared::cta'], '.global', mode, '.mbarrier::complete_tx::bytes', ['', '.multicast::cluster'], ['', ...GROUPS], ['', '.L2::cache_hint'], ` [%r1], ${map}, [%r3]${offsets(extra)}`, ['', ', %h1'], ['', ', %rd2']),
          ...(extra === 0
            ? [
                ...product('cp.async.bulk.tensor', `.${rank}d`, '.global.shared::cta', mode, '.bulk_group', ['', '.L2::cache_hint'], ` ${map}, [%r1]`, ['', ', %rd2']),
                ...product('cp.reduce.async.bulk.tensor', `.${rank}d`, '.global.shared::cta', ['.add', '.min', '.max', '.inc', '.dec', '.and', '.or', '.xor'], mode, '.bulk_group', ['', '.L2::cache_hint'], ` ${map}, [%r1]`, ['', ', %rd2']),
              ]
            : []),
          ...product('cp.async.bulk.prefetch.tensor', `.${rank}d`, '.L2.global', mode, ['', '.L2::cache_hint'], ` ${map}${offsets(extra)}`, ['', ', %rd2']),
        ]
      }),
    ),
  )
} // prettier-ignore

const collectorsOf = (buffers: readonly string[]) => [
  '',
  ...product('.collector::', buffers, ['::fill', '::use', '::lastuse', '::discard']),
]
const LANES = ['', ', {%r1, %r2, %r3, %r4}', ', {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}']
const FAMILIES: Readonly<Record<string, Family>> = {
  'tcgen05.mma': {
    targets: ['sm_100a', 'sm_103a'],
    forms: ['', '.sp'].flatMap((sp) =>
      product('tcgen05.mma', sp, GROUPS, ['.kind::f16', '.kind::tf32', '.kind::f8f6f4', '.kind::i8'], ['', '.ashift'], collectorsOf(['a', 'b0']), ' [%r1], ', ['[%r2]', '%rd1'], ', %rd2, ', sp ? '[%r3], ' : '', '%r4', LANES, ', %p1', ['', ', 3', ', %rd1']),
    ),
  },
  'tcgen05.mma, block scales': {
    targets: ['sm_100a', 'sm_103a'],
    forms: ['', '.sp'].flatMap((sp) =>
      product('tcgen05.mma', sp, GROUPS, ['.kind::mxf8f6f4', '.kind::mxf4', '.kind::mxf4nvf4', '.kind::f8f6f4'], ['', '.block_scale'], ['', '.scale_vec::1X', '.scale_vec::2X', '.scale_vec::4X', '.block16', '.block32'], ['', '.ashift'], collectorsOf(['a']), ' [%r1], ', ['[%r2]', '%rd1'], ', %rd2, ', sp ? '[%r3], ' : '', '%r4, [%r5], [%r6], %p1', ['', ', 3']),
    ),
  },
  'tcgen05.mma.ws': {
    targets: ['sm_100a', 'sm_103a'],
    forms: ['', '.sp'].flatMap((sp) =>
      product('tcgen05.mma.ws', sp, GROUPS, ['.kind::f16', '.kind::tf32', '.kind::f8f6f4', '.kind::i8', '.kind::mxf8f6f4'], ['', '.ashift'], collectorsOf(['a', 'b0', 'b1', 'b2', 'b3']), ' [%r1], ', ['[%r2]', '%rd1'], ', %rd2, ', sp ? '[%r3], ' : '', '%r4', LANES.slice(0, 2), ', %p1', ['', ', %rd1', ', 0']),
    ),
  },
  'tcgen05, other': {
    targets: ['sm_100a', 'sm_103a'],
    forms: [
      ...product('tcgen05.alloc', GROUPS, '.sync.aligned', ['', '.shared::cta', '.shared::cluster'], '.b32 ', ADDRESSES, ['', ', 32', ', %r2', ', 48', ', 512', ', 1024']),
      ...product('tcgen05.dealloc', GROUPS, '.sync.aligned.b32 %r1', ['', ', 32', ', %r2']),
      ...product('tcgen05.relinquish_alloc_permit', GROUPS, '.sync.aligned'),
      ...product('tcgen05.wait', ['::ld', '::st'], '.sync.aligned'),
      ...product('tcgen05.fence', ['::before_thread_sync', '::after_thread_sync']),
      ...product('tcgen05.commit', GROUPS, '.mbarrier::arrive::one', ['', '.shared::cluster', '.shared::cta'], ['', '.multicast::cluster'], '.b64 ', ADDRESSES, ['', ', %h1', ', 3']),
      ...product('tcgen05.shift', GROUPS, ['', '.down', '.up'], ' [%r1]'),
      ...product('tcgen05.shift.down', GROUPS, ' [%r1]'),
      ...product('tcgen05.cp', GROUPS, ['.128x256b', '.4x256b', '.128x128b', '.64x128b', '.32x128b'], ['', '.warpx2::02_13', '.warpx2::01_23', '.warpx4'], ['', '.b8x16.b4x16_p64', '.b8x16.b6x16_p32', '.b8x16'], ' [%r1], %rd1'),
      ...['32x32b', '16x64b', '16x128b', '16x256b', '16x32bx2'].flatMap((shape) =>
        [1, 2, 4, 8, 16, 32, 64, 128].flatMap((n) => {
          const count = n * ({ '16x128b': 2, '16x256b': 4 }[shape] ?? 1)
          if (count > 128) return []
          const split = shape === '16x32bx2'
          const registers = (first: number) => `{${Array.from({ length: count }, (_, i) => `%r${first + i}`).join(', ')}}`
          return [
            ...product('tcgen05.ld.sync.aligned', `.${shape}.x${n}`, ['', '.pack::16b'], '.b32 ', registers(10), ', [%r1]', split ? ', 8' : ''),
            ...product('tcgen05.st.sync.aligned', `.${shape}.x${n}`, ['', '.unpack::16b'], '.b32 [%r1]', split ? ', 8, ' : ', ', registers(10)),
            ...(n > 1 ? product('tcgen05.ld.red.sync.aligned', `.${shape}.x${n}`, ['.min', '.max'], ['', '.abs'], ['', '.NaN'], ['.f32', '.u32', '.s32'], ' ', registers(10), ', %r3, [%r1]', split ? ', 8' : '') : []),
          ]
        }),
      ),
    ],
  },
  'cp.async.bulk.tensor': { targets: ['sm_90a', 'sm_100a'], forms: tensorCopies() },
  'cp.async.bulk': {
    targets: ['sm_90a', 'sm_100a'],
    forms: [
      ...product('cp.async.bulk', ['.shared::cluster.global', '.shared::cta.global', '.shared::cluster.shared::cta'], '.mbarrier::complete_tx::bytes', ['', '.multicast::cluster'], ['', '.L2::cache_hint'], ' [%r1], ', ['[%rd1]', '[%r2]'], ', 16, [%r3]', ['', ', %h1'], ['', ', %rd2']),
      ...product('cp.async.bulk.global.shared::cta.bulk_group', ['', '.L2::cache_hint'], ['', '.cp_mask'], ' [%rd1], [%r1], 16', ['', ', %rd2'], ['', ', %h1']),
      ...product('cp.async.bulk.prefetch.L2.global', ['', '.L2::cache_hint'], ' [%rd1], 16', ['', ', %rd2']),
      ...product('cp.reduce.async.bulk', ['.shared::cluster.shared::cta.mbarrier::complete_tx::bytes', '.global.shared::cta.bulk_group'], ['', '.L2::cache_hint'], ['.add', '.min', '.max', '.inc', '.dec', '.and', '.or', '.xor', '.add.noftz'], ['.u32', '.s32', '.u64', '.s64', '.b32', '.b64', '.f16', '.bf16', '.f32', '.f64'], ['', '', ].slice(0, 1), [' [%r1], [%r2], 16, [%r3]', ' [%rd1], [%r2], 16', ' [%rd1], [%r2], 16, %rd2']),
      ...product('cp.async.bulk', ['.commit_group', '.wait_group 0', '.wait_group.read 1']),
      ...product('tensormap.replace.tile', ['.global_address', '.rank', '.box_dim', '.global_dim', '.global_stride', '.element_stride', '.elemtype', '.interleave_layout', '.swizzle_mode', '.fill_mode', '.swizzle_atomicity'], ['', '.global', '.shared::cta'], '.b1024', ['.b32', '.b64'], ' [%rd1]', [', 1', ', 0, %r1', ', 0, %rd2', ', %r1', ', %rd2']),
      ...product('tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic', ['.release', '.acquire'], ['.cta', '.cluster', '.gpu', '.sys'], '.sync.aligned [%rd1], [%r1], 128'),
      ...product('fence.proxy', ['.alias', '.async', '.async.global', '.async.shared::cta', '.async.shared::cluster', '.tensormap::generic.release.gpu', '.tensormap::generic.acquire.gpu [%rd1], 128']),
      ...product('fence', ['.sc', '.acq_rel', '.acquire', '.release'], ['.cta', '.cluster', '.gpu', '.sys']),
      ...product('fence', ['.acquire', '.release'], '.sync_restrict', ['::shared::cluster', '::shared::cta'], '.cluster'),
      ...product('fence.proxy.async::generic', ['.acquire', '.release'], '.sync_restrict', ['::shared::cluster', '::shared::cta'], '.cluster'),
      'fence.mbarrier_init.release.cluster',
    ],
  },
  'mbarrier, clusters': {
    targets: ['sm_90a', 'sm_100a'],
    forms: [
      ...product('mbarrier.', ['init', 'inval'], ['', '.shared', '.shared::cta'], '.b64 ', ADDRESSES, ['', ', 1', ', %r2']),
      ...product('mbarrier.', ['expect_tx', 'complete_tx'], ['', '.relaxed'], ['', '.cta', '.cluster'], ['', '.shared::cta', '.shared::cluster'], '.b64 ', ADDRESSES, ', 16'),
      ...product('mbarrier.', ['arrive', 'arrive_drop'], ['', '.expect_tx'], ['', '.release', '.relaxed'], ['', '.cta', '.cluster'], ['', '.shared::cta', '.shared::cluster'], '.b64 ', ['%rd2', '_'], ', [%r1]', ['', ', 2']),
      ...product('mbarrier.', ['arrive', 'arrive_drop'], '.noComplete', ['', '.release.cta'], ['', '.shared::cta'], '.b64 %rd2, [%rd1], 2'),
      ...product('mbarrier.', ['test_wait', 'try_wait'], ['', '.parity'], ['', '.acquire', '.relaxed'], ['', '.cta', '.cluster'], ['', '.shared::cta'], '.b64 %p1, [%r1], ', ['%r2', '%rd2'], ['', ', %r3']),
      'mbarrier.pending_count.b64 %r1, %rd1',
      ...product('cp.async.mbarrier.arrive', ['', '.noinc'], ['', '.shared', '.shared::cta'], '.b64 ', ADDRESSES),
      ...product('barrier.cluster', ['.arrive', '.wait'], ['', '.release', '.relaxed', '.acquire'], ['', '.aligned']),
      ...product('mapa', ['', '.shared::cluster'], ['.u32 %r1, %r2, %r3', '.u64 %rd1, %rd2, %r3']),
      ...product('getctarank', ['', '.shared::cluster'], ['.u32 %r1, %r2', '.u64 %r1, %rd2']),
      ...product('clusterlaunchcontrol.try_cancel.async', ['', '.shared::cta'], '.mbarrier::complete_tx::bytes', ['', '.multicast::cluster::all'], '.b128 [%r1], [%r2]'),
      ...product('clusterlaunchcontrol.query_cancel', ['.is_canceled.pred.b128 %p1, %q1', '.get_first_ctaid.v4.b32.b128 {%r1, %r2, %r3, _}, %q1', '.get_first_ctaid::x.b32.b128 %r1, %q1', '.get_first_ctaid::y.b32.b128 %r1, %q1', '.get_first_ctaid::z.b32.b128 %r1, %q1']),
      ...product('griddepcontrol', ['.wait', '.launch_dependents']),
      ...product('setmaxnreg', ['.inc', '.dec'], '.sync.aligned.u32 ', ['24', '240', '25']),
      ...product('st.async', ['', '.weak', '.relaxed.cluster'], '.shared::cluster.mbarrier::complete_tx::bytes', ['', '.v2', '.v4'], ['.b32', '.b64', '.u32', '.s64', '.f32', '.f64'], ' [%r1], ', ['%r2', '%rd2', '%f1', '%d1', '{%r2, %r3}', '{%rd2, %rd3}', '{%f1, %f1}', '{%d1, %d1}', '{%r2, %r3, %r4, %r5}', '{%f1, %f1, %f1, %f1}'], ', [%r3]'),
      ...product('red.async', ['', '.relaxed.cluster'], ['.inc', '.dec', '.min', '.max', '.and', '.or', '.xor', '.add'], '.shared::cluster.mbarrier::complete_tx::bytes', ['.u32', '.s32', '.b32', '.u64', '.s64'], ' [%r1], ', ['%r2', '%rd2'], ', [%r3]'),
      ...product('elect.sync ', ['%r1|%p1', '_|%p1'], ', ', ['0xffffffff', '%r2']),
      ...product('redux.sync', ['.add', '.min', '.max', '.and', '.or', '.xor', '.min.abs', '.max.NaN', '.min.abs.NaN'], ['.u32', '.s32', '.b32', '.f32'], ' ', ['%r1, %r2', '%f1, %f2'], ', 0xffffffff'),
    ],
  },
  'ldmatrix, stmatrix': {
    targets: ['sm_90a', 'sm_100a'],
    forms: [
      ...product('ldmatrix.sync.aligned', ['.m8n8', '.m16n16', '.m8n16'], ['.x1', '.x2', '.x4'], ['', '.trans'], ['', '.shared', '.shared::cta'], ['.b16', '.b8', '.b8x16.b6x16_p32', '.b8x16.b4x16_p64'], ' ', ['{%r1}', '{%r1, %r2}', '{%r1, %r2, %r3, %r4}'], ', [%r5]'),
      ...product('stmatrix.sync.aligned', ['.m8n8', '.m16n8'], ['.x1', '.x2', '.x4'], ['', '.trans'], ['', '.shared', '.shared::cta'], ['.b16', '.b8'], ' [%r5], ', ['{%r1}', '{%r1, %r2}', '{%r1, %r2, %r3, %r4}']),
      ...product('movmatrix.sync.aligned.m8n8', ['', '.trans'], '.b16 %r1, %r2'),
    ],
  },
} // prettier-ignore

const HEADER = (target: Target) => `.version 9.0\n.target ${target}\n.address_size 64\n`
const entry = (form: string, i: number) =>
  `.visible .entry f${i}() { .reg .b32 %r<200>; .reg .b64 %rd<8>; .reg .b16 %h<4>; .reg .f32 %f<8>; .reg .f64 %d<4>; .reg .b128 %q<2>; .reg .pred %p<4>; ${form}; ret; }\n`

const folder = mkdtempSync(path.join(tmpdir(), 'ktl-forms-'))
const BATCH = 400
/** Those of the forms that ptxas assembles. Mostly it names the lines that it refuses. */
function accepted(forms: readonly string[], target: Target): string[] {
  const file = path.join(folder, 'forms.ptx')
  writeFileSync(file, HEADER(target) + forms.map(entry).join(''))
  const args = [`-arch=${target}`, '-O0', '-o', path.join(folder, 'forms.cubin'), file]
  const { status, stdout, stderr } = spawnSync('ptxas', args, { encoding: 'utf8' })
  if (status === 0) return [...forms]
  if (forms.length === 1) return []
  const refused = new Set([...`${stdout}${stderr}`.matchAll(/line (\d+);/g)].map(([, line]) => Number(line) - 4))
  const rest = forms.filter((_, i) => !refused.has(i))
  if (rest.length === 0) return []
  if (rest.length < forms.length) return accepted(rest, target)
  const half = forms.length >> 1
  return [...accepted(forms.slice(0, half), target), ...accepted(forms.slice(half), target)]
}

const device = new addon.VirtualDevice({ target: 'sm_100a', memoryBytes: 2 ** 20, smCount: 1 })
const device90 = new addon.VirtualDevice({ target: 'sm_90a', memoryBytes: 2 ** 20, smCount: 1 })
const LAUNCH: NativeLaunch = {
  grid: [1, 1, 1],
  block: [1, 1, 1],
  cluster: [1, 1, 1],
  sharedMemBytes: 0,
  params: new Uint8Array(0),
  order: 'lazy',
  seed: 0,
  checks: 'none',
  instructionBudget: 100,
  threads: 1,
  trace: false,
}
/** What no row of the device's table matches is a finding where it is executed. */
const UNKNOWN = 'KTL5012'
async function whyNot(form: string, target: Target): Promise<string | null> {
  const old = target === 'sm_90a'
  const shorten = (message: string) => message.split('\n')[0]!.replace(/.*line 4: /, '')
  try {
    const module = (old ? device90 : device).loadModule(HEADER(old ? 'sm_90a' : 'sm_100a') + entry(form, 0))
    const { findings } = await module.launch('f0', LAUNCH)
    const unknown = findings.find(({ code }) => code === UNKNOWN)
    return unknown === undefined ? null : shorten(unknown.message)
  } catch (error) {
    return shorten((error as Error).message)
  }
}

const chosen = process.argv.slice(2)
const version = execFileSync('ptxas', ['--version'], { encoding: 'utf8' }).match(/release [\d.]+/)?.[0]
console.log(`Forms that ptxas (${version}) accepts, and the virtual device loads.\n`)
console.log('family                        target      forms  accepted    loaded  loaded, not accepted')
const gaps = new Map<string, { count: number; form: string; why: string }>()
/** Of a gap one form is shown: that of an opcode and a reason. */
function note(target: Target, form: string, why: string): void {
  const opcode = form.split(/[ .]/).slice(0, 3).join('.')
  const key = `${target} ${opcode} ${why.split(':')[0]!}`
  const known = gaps.get(key)
  gaps.set(key, { count: (known?.count ?? 0) + 1, form: known?.form ?? form, why: why.split(':')[0]! })
}
for (const [name, { forms, targets }] of Object.entries(FAMILIES)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue
  const distinct = [...new Set(forms)]
  for (const target of targets) {
    const good = new Set<string>()
    for (let at = 0; at < distinct.length; at += BATCH)
      accepted(distinct.slice(at, at + BATCH), target).forEach((form) => good.add(form))
    let [loaded, excess] = [0, 0]
    for (const form of distinct) {
      const why = await whyNot(form, target)
      if (good.has(form) && why === null) loaded++
      if (good.has(form) && why !== null) note(target, form, why)
      if (!good.has(form) && why === null) excess++
    }
    const counts = [distinct.length, good.size, loaded, excess].map((n) => String(n).padStart(8)).join('  ')
    console.log(`${name.padEnd(30)}${target.padEnd(9)}${counts}`)
  }
}
if (gaps.size > 0) console.log('\nAccepted and not loaded, by opcode and reason, one form of each:')
for (const [key, { count, form, why }] of gaps)
  console.log(`${String(count).padStart(4)}  ${key.split(' ')[0]!.padEnd(8)} ${form}\n      ${why}`)
rmSync(folder, { recursive: true })
