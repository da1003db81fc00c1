/** SM100: plan → tile IR → one self-contained CUDA C++ file with its launch recipe. */
import { lowerSm100 } from '../../compiler/sm100/lower.ts'
import type { Sm100Plan } from '../../compiler/sm100/plan.ts'
import type { SetupStep, TileProgram } from '../../compiler/tile_ir.ts'
import { printDeviceFunctions } from '../device_functions.ts'
import { printFileHeader, printHostLauncher } from '../host_launcher.ts'
import { kernelParams } from '../kernel_params.ts'
import { cudaIdentifier } from '../mangle.ts'
import { SourceBuilder } from '../source_builder.ts'
import type { GeneratedKernel, ParamRule } from '../generated.ts'
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
  }
  // The kernel's text decides which helpers stand above it.
  emitTo(new SourceBuilder())

  const file = new SourceBuilder()
  printFileHeader(file, { name, entry, target: plan.instance.target, program: plan.program, recipe })
  emitTypes(file)
  emitConstants(file, plan, program)
  for (const text of [...printWrappers(wrappers), ...printDeviceFunctions(functions)]) file.line(text)
  emitTileOrigin(file)
  emitTo(file)
  printHostLauncher(file, { entry, recipe, program: plan.program })
  return { entry, cuda: file.toString(), recipe, sourceMap: file.sourceMap }
}

function emitTypes(file: SourceBuilder): void {
  file.line(`typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

/// CUtensorMap: 128 opaque bytes that the driver encodes.
struct alignas(64) TensorMap { u64 words[16]; };
`)
}

function emitConstants(file: SourceBuilder, plan: Sm100Plan, program: TileProgram): void {
  const [m, n, k] = program.tile
  const define = (text: string, comment = ''): void => {
    file.line(`constexpr u32 ${text};${comment && `  // ${comment}`}`)
  }
  define(`TILE_M = ${m}, TILE_N = ${n}, TILE_K = ${k}`, 'k is one 128-byte swizzle span')
  define(`STAGE_BYTES = ${plan.stageBytes}`, 'A and B of one stage, as TMA counts them')
  define(`ROWS_PER_WARP = ${program.rowsPerWarp}`, 'of the tile in the lane quarter of an epilogue warp')
  define(`TMEM_COLUMNS = ${program.tmem.columns}`, `two accumulators of ${program.tmem.columnsPerAccumulator}, rounded up to a power of two`) // prettier-ignore
  const word = plan.instructionDescriptor.toString(16).padStart(8, '0')
  define(`INSTRUCTION = 0x${word}`, `${plan.a.operand.dtype} x ${plan.b.operand.dtype} -> f32, ${m} x ${n}, A ${plan.a.major === 'k' ? 'K' : 'M'}-major, B ${plan.b.major === 'k' ? 'K' : 'N'}-major`) // prettier-ignore
  file.line('')
  file.line('// Shared memory, from the 1024-byte aligned base.')
  for (const b of program.buffers)
    define(`${constant(b.name)} = ${b.offset}, ${constant(b.name)}_SLOT = ${b.slotBytes}`, `${b.slots} slots${b.perWarp > 1 ? ` for each of ${b.perWarp} warps` : ''}: ${b.holds}`) // prettier-ignore
  for (const b of program.barriers) define(`${constant(b.name)} = ${b.offset}`, `${ringOf(program, b.ring).slots} mbarriers: ${b.meaning}`) // prettier-ignore
  define(`TMEM_SLOT = ${program.tmem.slotOffset}`, 'where tcgen05.alloc leaves the TMEM address')
  file.line('')
}

/** Tiles are walked in groups of `tile_group` rows so that neighbours share A and B in L2. */
function emitTileOrigin(file: SourceBuilder): void {
  file.line(`struct TileOrigin { u32 m, n, l; };  // first row, first column, batch

__device__ __forceinline__ TileOrigin tile_origin(u32 tile, u32 tiles_m, u32 tiles_n, u32 tile_group) {
  const u32 batch = tile / (tiles_m * tiles_n), in_batch = tile % (tiles_m * tiles_n);
  const u32 group = in_batch / (tile_group * tiles_n), in_group = in_batch % (tile_group * tiles_n);
  const u32 rows = min(tile_group, tiles_m - group * tile_group);
  return {(group * tile_group + in_group % rows) * TILE_M, in_group / rows * TILE_N, batch};
}
`)
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
    out.line('const u32 tiles_m = (M + TILE_M - 1) / TILE_M, tiles_n = (N + TILE_N - 1) / TILE_N;')
    out.line(`const u32 tiles = tiles_m * tiles_n${plan.gemm.l !== null ? ' * L' : ''};`)
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
