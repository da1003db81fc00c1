/** A pipeline program as one self-contained CUDA C++ file with its launch recipe: a function of the program, and of nothing else. */
import { ARCHS } from '../../compiler/archs.ts'
import type { KernelLaunch, LaunchRecipe, ParamRule } from '../../compiler/ir/launch.ts'
import { opsOf, type Copies, type SetupStep, type TileProgram } from '../../compiler/ir/pipe.ts'
import { descriptorBits, type DescriptorPlan } from '../../compiler/targets/tensor_core/operands.ts'
import { printDeviceFunctions } from '../cuda/device_functions.ts'
import type { GeneratedKernel } from '../cuda/generated.ts'
import { printFileHeader, printHostLauncher } from '../cuda/host_launcher.ts'
import { kernelParams } from '../cuda/kernel_params.ts'
import { emitScalars } from '../cuda/scalars.ts'
import { emitSharedWorks } from './shared_items.ts'
import { hasTail } from '../../compiler/space/domain.ts'
import { cudaIdentifier } from '../cuda/mangle.ts'
import { SourceBuilder } from '../cuda/source_builder.ts'
import { emitCluster, emitTileOrigin } from './cluster.ts'
import { combineEntry, emitCombine } from './combine.ts'
import { bufferOf, constant, hasPhase, ringOf, type EmitContext } from './context.ts'
import { emitKRange } from './depth.ts'
import { emitOps, type Emitters } from './context.ts'
import { stageBytes } from './loads.ts'
import { kernelNames } from './names.ts'
import { emitRepack, repackEntry } from './repack.ts'
import { registerTile } from './register_tile.ts'
import { stepName, unitsAcross } from './tiles.ts'
import { tracedLaunch, tracePointer, Tracer, traceWrapper } from './trace.ts'

export type Define = (text: string, comment?: string, type?: string) => void

/** What a target adds. */
export interface TargetText {
  readonly emitters: Emitters
  /** PTX wrappers by name, in the order they are printed. */
  readonly wrappers: Readonly<Record<string, string>>
  /** Constants beside those of all targets. */
  constants(program: TileProgram, define: Define): void
  /** The warp of a thread in its CTA (CUDA). Default: by its number. */
  warp?(program: TileProgram): string
  /** Statements before the roles, e.g. variables of all of them. */
  prologue?(c: EmitContext): void
}

export interface PrintOptions {
  /** Roles write time stamps. */
  readonly traced?: boolean
}

/** The file of a program as `name`, which must determine it. */
export function printKernel(
  program: TileProgram,
  name: string,
  target: TargetText,
  { traced = false }: PrintOptions = {},
): GeneratedKernel {
  const names = kernelNames(program)
  const entry = cudaIdentifier(name)
  const recipe = named(traced ? tracedLaunch(program.launch) : program.launch, entry)
  const tracer = traced ? new Tracer(program, tracePointer({ names })) : null
  const wrappers = new Set<string>(['shared_address'])
  const functions = new Set<string>()
  const definitions = new Map<string, string>()
  const tile = registerTile(program.layout, program.subtileColumns, names.end('m'))
  const emitTo = (out: SourceBuilder): void => {
    const expressions = { functions, temporaries: { count: 0 }, accuracy: program.source.accuracy }
    const c: EmitContext = {
      program,
      names,
      out,
      wrappers,
      functions,
      definitions,
      tile,
      emitters: target.emitters,
      expressions,
      role: null,
      tracer,
    }
    if (recipe.before) emitRepack(out, program, recipe.before, names, functions)
    emitKernel(recipe.params, entry, c, target)
    if (recipe.next) emitCombine(out, program, recipe.next, names, functions)
  }
  // The kernel's text decides which helpers stand above it.
  emitTo(new SourceBuilder())

  const file = new SourceBuilder()
  printFileHeader(file, {
    name,
    entry,
    target: program.target,
    kernel: program.source.kernel,
    digest: program.source.digest,
  })
  emitTypes(file)
  emitConstants(file, program, target)
  for (const text of [
    ...printWrappers(wrappers, {
      ...target.wrappers,
      ...(tracer && { trace_stamp: traceWrapper(program.launch) }),
    }),
    ...definitions.values(),
    ...printDeviceFunctions(functions, ARCHS[program.target].cc),
  ])
    file.line(text)
  emitTileOrigin(file, program)
  emitTo(file)
  printHostLauncher(file, { entry, recipe, program: program.source })
  return { entry, cuda: file.toString(), recipe, sourceMap: file.sourceMap, ...(tracer && { trace: tracer.layout }) }
}

/** The launch with the entries' names. */
const named = ({ before, next, ...launch }: KernelLaunch, entry: string): LaunchRecipe => ({
  entry,
  ...launch,
  ...(before && { before: named(before, repackEntry(entry)) }),
  ...(next && { next: named(next, combineEntry(entry)) }),
})

/** Text of the wrappers in `used`, in table order. */
export function printWrappers(used: ReadonlySet<string>, table: Readonly<Record<string, string>>): string[] {
  for (const name of used) if (!(name in table)) throw new Error(`no PTX wrapper '${name}'`)
  return Object.entries(table).flatMap(([name, text]) => (used.has(name) ? [text] : []))
}

function emitTypes(file: SourceBuilder): void {
  file.line(`typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

/// CUtensorMap: 128 opaque bytes that the driver encodes.
struct alignas(64) TensorMap { u64 words[16]; };
`)
}

function emitConstants(file: SourceBuilder, program: TileProgram, target: TargetText): void {
  const { cluster, domain } = program
  const define: Define = (text, comment = '', type = 'u32') => {
    file.line(`constexpr ${type} ${text};${comment && `  // ${comment}`}`)
  }
  define(
    `CTA_M = ${domain.rows.extent}, TILE_N = ${domain.columns.extent}, ${domain.columns.step === undefined ? '' : `STEP_N = ${domain.columns.step}, `}TILE_K = ${domain.depth}`,
    `${cluster.pair > 1 ? 'each CTA of a pair has half of the rows of the tile; ' : ''}k is ${depthBytes(program)} bytes`,
  )
  define(
    `CLUSTER_M = ${cluster.shape[0]}, CLUSTER_N = ${cluster.shape[1]}, CLUSTER = ${cluster.size}`,
    'CTAs of a cluster along m and n' + (cluster.splits > 1 ? ', and with those that share the k of a tile' : ''),
  )
  if (cluster.splits > 1) define(`SPLITS = ${cluster.splits}`, 'CTAs that share the k of a tile')
  if (domain.parts !== undefined) define(`PARTS = ${domain.parts}`, 'of k: work items of a tile')
  if (domain.share !== undefined) define(`SHARE = ${domain.share}`, 'tiles that share work items')
  if (hasTail(domain) && program.launch.grid.kind === 'persistent')
    define(
      `WAVE = ${program.launch.grid.wave}, WHOLE = ~0u`,
      'tiles of a wave, which are not cut into parts; what they have instead of a part',
    )
  if (cluster.fallback)
    define(
      `FALLBACK_M = ${cluster.fallback[0]}, FALLBACK_N = ${cluster.fallback[1]}, FALLBACK = ${cluster.fallback[0] * cluster.fallback[1]}`,
      'of a cluster where that one does not fit',
    )
  if (cluster.pair > 1)
    define('LEADER_MASK = 0xFEFFFFFF', 'of a shared address: the same place in the even CTA of the pair')
  const copied = stageBytes(program)
  if (copied > 0) define(`TMA_BYTES = ${copied}`, 'what TMA brings for one stage of a CTA')
  define(`ROWS_PER_WARP = ${program.layout.rowsPerWarp}`, 'of the tile in the lanes of an epilogue warp')
  for (const op of opsOf(program))
    if (op.op === 'find_rows') {
      define('NOWHERE = 1ll << 63', 'of a row that is looked up', 'i64')
      break
    }
  target.constants(program, define)
  for (const [name, { leadingBytes, strideBytes, swizzle, ...rest }] of descriptorsOf(program))
    define(
      `${name}_LAYOUT = ${hex(descriptorBits({ leadingBytes, strideBytes, swizzle, ...rest }), 16)}`,
      `matrix descriptor: LBO ${leadingBytes}, SBO ${strideBytes}, ${swizzle} swizzle`,
      'u64',
    )
  file.line('')
  file.line('// Shared memory, from the 1024-byte aligned base.')
  for (const b of program.buffers)
    define(
      `${constant(b.name)} = ${b.offset}${b.ring === null ? '' : `, ${constant(b.name)}_SLOT = ${b.pitch ?? b.slotBytes}`}`,
      `${b.slots} slots${copiesText(b)}: ${b.holds}`,
    )
  for (const b of program.barriers)
    define(
      `${constant(b.name)} = ${b.offset}`,
      `${ringOf(program, b.ring).slots} mbarriers${copiesText(b)}: ${b.meaning}`,
    )
  if (program.tmem) define(`TMEM_SLOT = ${program.tmem.slotOffset}`, 'where tcgen05.alloc leaves the TMEM address')
  file.line('')
}

/** Matrix descriptors of A and B; mma.sync reads registers. */
function descriptorsOf(program: TileProgram): readonly (readonly [string, DescriptorPlan])[] {
  for (const op of opsOf(program)) {
    if (op.op === 'mma' || op.op === 'wgmma')
      return [
        ['A', op.aDescriptor],
        ['B', op.bDescriptor],
      ]
  }
  return []
}

/** Bytes of k in a tile of A. */
function depthBytes(program: TileProgram): number {
  for (const op of opsOf(program)) {
    if ((op.op === 'tma_load' || op.op === 'gather' || op.op === 'copy_tile') && op.free === 'm')
      return bufferOf(program, op.buffer).slotBytes / op.tile.rows
  }
  return NaN
}

const copiesText = ({ per }: { readonly per?: Copies }): string =>
  per ? ` for each of ${per.count} ${per.owner}s` : ''

export const hex = (value: bigint | number, digits: number): string => `0x${value.toString(16).padStart(digits, '0')}`

function emitKernel(params: readonly ParamRule[], entry: string, c: EmitContext, target: TargetText): void {
  const { out, program, names } = c
  out.line(`extern "C" __global__ void __launch_bounds__(${program.launch.threads}, ${program.registers?.perSm ?? 1})`)
  out.line(`${entry}(`)
  const declared = kernelParams(params, names).map(({ type, name }) => `${type} ${name}`)
  out.line(`    ${declared.join(',\n    ')})`)
  out.line('{').indented(() => {
    emitScalars(out, params, names, program.source, c.functions)
    out.line('extern __shared__ __align__(1024) unsigned char dynamic_smem[];')
    out.line('const u32 smem = (shared_address(dynamic_smem) + 1023) & ~1023u;')
    out.line(`const u32 warp = ${target.warp?.(program) ?? 'threadIdx.x / 32'}, lane = threadIdx.x % 32;`)
    c.tracer?.declare(c)
    const step = stepName(program.domain)
    const units = {
      units_m: 'units_m = (M + CTA_M * CLUSTER_M - 1) / (CTA_M * CLUSTER_M)',
      units_n: `units_n = (N + ${step} * CLUSTER_N - 1) / (${step} * CLUSTER_N)`,
    }
    const { groups } = program.domain
    if (groups) out.line(`const u32 ${units[unitsAcross(groups)]};`)
    else {
      out.line(`const u32 ${units.units_m}, ${units.units_n};`)
      const blocks = `units_m * units_n${program.domain.batch !== null ? ' * L' : ''}`
      if (hasTail(program.domain)) {
        out.line(`const u32 blocks = ${blocks}, whole_blocks = blocks - blocks % WAVE;`)
        if (program.domain.share === undefined)
          out.line('const u32 works = (whole_blocks + (blocks - whole_blocks) * PARTS) * CLUSTER;')
        else emitSharedWorks(c)
      } else out.line(`const u32 works = ${blocks} * CLUSTER;`)
    }
    emitCluster(c)
    emitKRange(c)
    out.line('')
    target.prologue?.(c)
    for (const step of program.setup) emitStep(step, c)
    // Until all that it has written can be seen (PTX ISA, griddepcontrol); results are written, and copies read, behind this.
    if (program.launch.before)
      out.line('asm volatile("griddepcontrol.wait;" ::: "memory");  // for the kernel that copies')
    let first = true
    for (const role of program.roles) {
      const last = role.firstWarp + role.warps - 1
      const alone = 32 * role.warps === program.launch.threads
      const test =
        role.warps === 1
          ? `warp == ${role.firstWarp}`
          : role.firstWarp === 0
            ? `warp < ${role.warps}`
            : `warp >= ${role.firstWarp} && warp <= ${last}`
      out.line('')
      out.line(
        `// ---- ${role.name} (${role.warps === 1 ? `warp ${role.firstWarp}` : `warps ${role.firstWarp} to ${last}`}): ${role.does}`,
      )
      out.block(alone ? '' : `${first ? '' : 'else '}if (${test})`, () => {
        for (const ring of role.rings)
          out.line(
            hasPhase(program, ring)
              ? `u32 ${ring} = ${ringOf(program, ring).startsAt ?? 0}, ${ring}_phase = 0;`
              : `u32 ${ring} = 0;`,
          )
        emitOps(role.body, { ...c, role })
      })
      first = false
    }
    out.line('')
    for (const step of program.teardown) emitStep(step, c)
  })
  out.line('}')
}

function emitStep(step: SetupStep, c: EmitContext): void {
  if (step.warp === null) emitOps(step.body, c)
  else c.out.block(`if (warp == ${step.warp})`, () => emitOps(step.body, c))
}
