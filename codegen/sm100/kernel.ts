/** SM100: plan → tile IR → one self-contained CUDA C++ file with its launch recipe. */
import type { ClusterPlan } from '../../compiler/sm100/cluster.ts'
import { descriptorBits } from '../../compiler/sm100/operands.ts'
import { inputMaps, lowerSm100 } from '../../compiler/sm100/lower.ts'
import type { Sm100Plan } from '../../compiler/sm100/plan.ts'
import type { SetupStep, TileProgram } from '../../compiler/tile_ir.ts'
import { printDeviceFunctions } from '../device_functions.ts'
import { printFileHeader, printHostLauncher } from '../host_launcher.ts'
import { kernelParams } from '../kernel_params.ts'
import { cudaIdentifier } from '../mangle.ts'
import { SourceBuilder } from '../source_builder.ts'
import type { GeneratedKernel, ParamRule } from '../generated.ts'
import { emitCombine } from './combine.ts'
import { constant, hasPhase, ringOf, type EmitContext } from './context.ts'
import { emitOps } from './emit.ts'
import { kernelNames } from './names.ts'
import { printWrappers } from './ptx.ts'
import { launchRecipe } from './recipe.ts'

export function generateSm100(plan: Sm100Plan, name: string): GeneratedKernel {
  return printSm100(plan, lowerSm100(plan), name)
}

/** Apart from `generateSm100`, tests print edited programs with it. */
export function printSm100(plan: Sm100Plan, program: TileProgram, name: string): GeneratedKernel {
  const names = kernelNames(plan.program, plan.gemm)
  const entry = cudaIdentifier(name)
  const recipe = launchRecipe(plan, program, entry)
  const wrappers = new Set<string>(['shared_address'])
  const functions = new Set<string>()
  const emitTo = (out: SourceBuilder): void => {
    const expressions = { functions, temporaries: { count: 0 }, accuracy: plan.program.accuracy }
    emitKernel(plan, recipe.params, entry, { program, names, out, wrappers, functions, expressions, role: null })
    if (recipe.next) emitCombine(out, plan, recipe.next, names, functions)
  }
  // The kernel's text decides which helpers stand above it.
  emitTo(new SourceBuilder())

  const file = new SourceBuilder()
  printFileHeader(file, { name, entry, target: plan.instance.target, program: plan.program, recipe })
  emitTypes(file)
  emitConstants(file, plan, program)
  for (const text of [...printWrappers(wrappers), ...printDeviceFunctions(functions)]) file.line(text)
  emitTileOrigin(file, plan.cluster)
  emitTo(file)
  printHostLauncher(file, { entry, recipe, program: plan.program })
  return { entry, cuda: file.toString(), recipe, sourceMap: file.sourceMap }
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

function emitConstants(file: SourceBuilder, plan: Sm100Plan, program: TileProgram): void {
  const [m, n, k] = program.tile
  const { cluster, a, b } = plan
  const define = (text: string, comment = '', type = 'u32'): void => {
    file.line(`constexpr ${type} ${text};${comment && `  // ${comment}`}`)
  }
  const hex = (value: bigint | number, digits: number): string => `0x${value.toString(16).padStart(digits, '0')}`
  define(
    `CTA_M = ${plan.ctaRows}, TILE_N = ${n}, TILE_K = ${k}`,
    `${cluster.pair > 1 ? 'each CTA of a pair has half of the rows of the tile; ' : ''}k is one 128-byte swizzle span`,
  )
  define(
    `CLUSTER_M = ${cluster.shape[0]}, CLUSTER_N = ${cluster.shape[1]}, CLUSTER = ${cluster.size}`,
    'CTAs of a cluster along m and n',
  )
  if (cluster.fallback)
    define(
      `FALLBACK_M = ${cluster.fallback[0]}, FALLBACK_N = ${cluster.fallback[1]}, FALLBACK = ${cluster.fallback[0] * cluster.fallback[1]}`,
      'of a cluster where that one does not fit',
    )
  if (cluster.pair > 1)
    define('LEADER_MASK = 0xFEFFFFFF', 'of a shared address: the same place in the even CTA of the pair')
  const copied = inputMaps(plan).reduce((bytes, { operand }) => bytes + operand.tileBytes, 0)
  if (copied > 0) define(`TMA_BYTES = ${copied}`, 'what TMA brings for one stage of a CTA')
  define(`ROWS_PER_WARP = ${program.layout.rowsPerWarp}`, 'of the tile in the lane quarter of an epilogue warp')
  define(
    `TMEM_COLUMNS = ${program.tmem.columns}, ACC_COLUMNS = ${program.tmem.columnsPerAccumulator}`,
    `${plan.accumulators} accumulator${plan.accumulators > 1 ? 's' : ''}, rounded up to a power of two`,
  )
  const major = (x: 'k' | 'mn', free: string): string => `${x === 'k' ? 'K' : free}-major`
  define(
    `INSTRUCTION = ${hex(plan.instructionDescriptor, 8)}`,
    `${a.operand.dtype} x ${b[0]!.operand.dtype} -> ${plan.accumulator}, ${m} x ${n}, A ${major(a.major, 'M')}, B ${major(b[0]!.major, 'N')}`,
  )
  for (const [name, operand] of [
    ['A', a],
    ['B', b[0]!],
  ] as const) {
    const { leadingBytes, strideBytes, swizzle } = operand.descriptor
    define(
      `${name}_LAYOUT = ${hex(descriptorBits(operand.descriptor), 16)}`,
      `matrix descriptor: LBO ${leadingBytes}, SBO ${strideBytes}, ${swizzle} swizzle`,
      'u64',
    )
  }
  file.line('')
  file.line('// Shared memory, from the 1024-byte aligned base.')
  for (const b of program.buffers)
    define(`${constant(b.name)} = ${b.offset}, ${constant(b.name)}_SLOT = ${b.slotBytes}`, `${b.slots} slots${b.perWarp > 1 ? ` for each of ${b.perWarp} warps` : ''}: ${b.holds}`) // prettier-ignore
  for (const b of program.barriers) define(`${constant(b.name)} = ${b.offset}`, `${ringOf(program, b.ring).slots} mbarriers: ${b.meaning}`) // prettier-ignore
  define(`TMEM_SLOT = ${program.tmem.slotOffset}`, 'where tcgen05.alloc leaves the TMEM address')
  file.line('')
}

/**
 * Units (the tiles of a preferred cluster) are walked in groups of `tile_group` rows so that neighbours share A and B in L2.
 * Within a unit, the CTAs of a fallback cluster follow one another.
 */
function emitTileOrigin(file: SourceBuilder, { fallback, shape }: ClusterPlan): void {
  const nested = (inner: (q: string, s: string) => string): string => inner('place % FALLBACK', 'place / FALLBACK')
  const across =
    fallback === null
      ? 'place % CLUSTER_M'
      : nested((q, s) => `${s} % ${shape[0] / fallback[0]} * FALLBACK_M + ${q} % FALLBACK_M`)
  const down =
    fallback === null
      ? 'place / CLUSTER_M'
      : nested((q, s) => `${s} / ${shape[0] / fallback[0]} * FALLBACK_N + ${q} / FALLBACK_M`)
  file.line(`// Where a CTA lies in its unit, the CTA tiles of one cluster.
__device__ __forceinline__ u32 place_m(u32 place) { return ${across}; }
__device__ __forceinline__ u32 place_n(u32 place) { return ${down}; }

struct TileOrigin { u32 m, n, l; };  // first row of this CTA, first column, batch

__device__ __forceinline__ TileOrigin tile_origin(u32 cta, u32 units_m, u32 units_n, u32 tile_group) {
  const u32 unit = cta / CLUSTER, place = cta % CLUSTER;
  const u32 batch = unit / (units_m * units_n), in_batch = unit % (units_m * units_n);
  const u32 group = in_batch / (tile_group * units_n), in_group = in_batch % (tile_group * units_n);
  const u32 rows = min(tile_group, units_m - group * tile_group);
  const u32 unit_m = group * tile_group + in_group % rows, unit_n = in_group / rows;
  return {(unit_m * CLUSTER_M + place_m(place)) * CTA_M, (unit_n * CLUSTER_N + place_n(place)) * TILE_N, batch};
}
`)
}

/** Who this CTA is in its cluster, and whom it shares operands with. */
function emitCluster(c: EmitContext): void {
  const { out, program } = c
  const { cluster, dynamic } = program
  if (cluster.size === 1) {
    out.line('const u32 first_work = blockIdx.x;')
    return
  }
  c.wrappers.add('cluster_rank_of')
  out.line('const u32 cluster_rank = cluster_rank_of(), first_work = blockIdx.x - cluster_rank;')
  if (cluster.fallback) {
    c.wrappers.add('cluster_size_of')
    out.line('const u32 cluster_size = cluster_size_of();')
    out.line('const bool is_preferred = cluster_size == CLUSTER;')
  }
  if (cluster.size === cluster.pair) {
    if (dynamic) out.line('constexpr u32 cluster_size = CLUSTER;')
    out.line('constexpr u16 producers_mask = 3;')
    return
  }
  if (!cluster.fallback) out.line('constexpr u32 cluster_size = CLUSTER;')
  const {
    pair,
    shape: [m, n],
  } = cluster
  const [rows, columns] = [n > 1, m > pair]
  const rowOf = (place: string): string => (pair > 1 ? `place_m(${place}) / 2` : `place_m(${place})`)
  out.line('// CTAs with the same rows of A, with the same columns of B, and whose loads the MMAs of this one read.')
  out.line(
    `u16 ${[...(rows ? ['row_mask'] : []), ...(columns ? ['column_mask'] : []), 'producers_mask'].map((mask) => `${mask} = 0`).join(', ')};`,
  )
  out.block('for (u32 rank = 0; rank < cluster_size; ++rank)', () => {
    out.line('const u32 mine = blockIdx.x % CLUSTER, other = mine - cluster_rank + rank;')
    out.line('const bool same_column = place_n(other) == place_n(mine);')
    if (rows) out.line('if (place_m(other) == place_m(mine)) row_mask |= 1 << rank;')
    if (columns)
      out.line(`if (same_column${pair > 1 ? ' && rank % 2 == cluster_rank % 2' : ''}) column_mask |= 1 << rank;`)
    out.line(`if (same_column || ${rowOf('other')} == ${rowOf('mine')}) producers_mask |= 1 << rank;`)
  })
  out.line('const u32 lower = (1 << cluster_rank) - 1;')
  for (const mask of [...(rows ? ['row'] : []), ...(columns ? ['column'] : [])]) {
    out.line(
      `const u32 ${mask}_index = __popc(${mask}_mask & lower)${cluster.fallback ? `, ${mask}_sharers = __popc(${mask}_mask)` : ''};`,
    )
  }
}

function emitKernel(plan: Sm100Plan, params: readonly ParamRule[], entry: string, c: EmitContext): void {
  const { out, program, names } = c
  out.line(`extern "C" __global__ void __launch_bounds__(${program.threads}, 1)`)
  out.line(`${entry}(`)
  const declared = kernelParams(params, names).map(({ type, name }) => `${type} ${name}`)
  out.line(`    ${declared.join(',\n    ')})`)
  out.line('{').indented(() => {
    out.line('extern __shared__ __align__(1024) unsigned char dynamic_smem[];')
    out.line('const u32 smem = (shared_address(dynamic_smem) + 1023) & ~1023u;')
    out.line('const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;')
    out.line(
      'const u32 units_m = (M + CTA_M * CLUSTER_M - 1) / (CTA_M * CLUSTER_M), units_n = (N + TILE_N * CLUSTER_N - 1) / (TILE_N * CLUSTER_N);',
    )
    out.line(`const u32 works = units_m * units_n${plan.gemm.l !== null ? ' * L' : ''} * CLUSTER;`)
    emitCluster(c)
    out.line('// K = 0 loads one tile from outside the tensors: zeros.')
    out.line('const u32 k_first = K > 0 ? 0 : 1, k_last = K > 0 ? (K + TILE_K - 1) / TILE_K : 2;')
    out.line('')
    for (const step of program.setup) emitStep(step, c)
    let first = true
    for (const role of program.roles) {
      const last = role.firstWarp + role.warps - 1
      const test = role.warps === 1 ? `warp == ${role.firstWarp}` : role.firstWarp === 0 ? `warp < ${role.warps}` : `warp >= ${role.firstWarp} && warp <= ${last}` // prettier-ignore
      out.line('')
      out.line(
        `// ---- ${role.name} (${role.warps === 1 ? `warp ${role.firstWarp}` : `warps ${role.firstWarp} to ${last}`}): ${role.does}`,
      )
      out.block(`${first ? '' : 'else '}if (${test})`, () => {
        for (const ring of role.rings)
          out.line(hasPhase(program, ring) ? `u32 ${ring} = 0, ${ring}_phase = 0;` : `u32 ${ring} = 0;`)
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
