/**
 * The kernel that is launched before one whose operands have rows TMA cannot address: it copies them to the workspace, where rows
 * begin at multiples of 128 bytes. Threads take turns over pieces of 16 bytes, neighbours over neighbours, several under way at once.
 */
import type { LaunchRecipe } from '../../compiler/ir/launch.ts'
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import { copyAxes, repackedOf, REPACK_BATCH, REPACK_SHARE, ROW_BYTES } from '../../compiler/ir/repack.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { BITS_TYPE, spanOf } from '../cuda/device/rows.ts'
import { kernelParams } from '../cuda/kernel_params.ts'
import type { SourceBuilder } from '../cuda/source_builder.ts'
import type { KernelNames } from './names.ts'

export const repackEntry = (entry: string): string => `${entry}_repack`

/** Prints the kernel of `recipe`. */
export function emitRepack(
  out: SourceBuilder,
  program: TileProgram,
  recipe: LaunchRecipe,
  names: KernelNames,
  functions: Set<string>,
): void {
  functions.add('ktl_span_of').add('ktl_row_window').add('ktl_row_piece')
  const declared = kernelParams(recipe.params, names).map(({ type, name }) => `${type} ${name}`)
  out.line('')
  out.line('// ---- copies operands whose rows are not aligned to 16 bytes')
  out.line(`extern "C" __global__ void __launch_bounds__(${recipe.threads}, ${REPACK_SHARE}) ${recipe.entry}(`)
  out.line(`    ${declared.join(',\n    ')})`)
  out.block('', () => {
    out.line('asm volatile("griddepcontrol.launch_dependents;");  // the setup of the next kernel')
    for (const operand of repackedOf(program.source)) emitCopy(out, operand, recipe, names)
  })
  out.line('')
}

function emitCopy(out: SourceBuilder, operand: TensorOperand, recipe: LaunchRecipe, names: KernelNames): void {
  const { name, dtype } = operand
  const [inner, ...outer] = copyAxes(operand)
  const { storageBytes } = DTYPES[dtype]
  const perPiece = 16 / storageBytes
  const extent = (axis: string): string => {
    const isCarried = recipe.params.some((p) => p.kind === 'carries' && p.operand === name && p.axis === axis)
    return isCarried ? `(${names.carries(name, axis)} ? ${names.extent(axis)} : 1)` : names.extent(axis)
  }
  const bits = BITS_TYPE[storageBytes]!
  const taken = recipe.threads * REPACK_BATCH
  const where = { role: 'repack', note: `copy ${name}`, ktl: null }
  out.block('', () => {
    out.line(`const u32 elements = ${names.extent(inner!)}, pieces = (elements + ${perPiece - 1}) / ${perPiece};`)
    const pitch = `(elements + ${ROW_BYTES / storageBytes - 1}) / ${ROW_BYTES / storageBytes}`
    out.line(
      `const u64 pitch = ${pitch} * ${ROW_BYTES / 16}, count = ${['u64(pieces)', ...outer.map(extent)].join(' * ')};`,
    )
    out.line(`ktl_piece* const copy = reinterpret_cast<ktl_piece*>(partial_${names.operand(name)});`)
    out.line(`const ktl_span span = ${spanOf(operand, names, extent)};`)
    const step = `for (u64 first = u64(blockIdx.x) * ${taken} + threadIdx.x; first < count; first += u64(gridDim.x) * ${taken})`
    out.block(step, () => {
      out.line(`const ${bits}* from[${REPACK_BATCH}];`)
      out.line(`u32 at[${REPACK_BATCH}];`)
      out.line(`u64 to[${REPACK_BATCH}];`)
      out.line(`ktl_window windows[${REPACK_BATCH}];`)
      const batch = `for (u32 j = 0; j < ${REPACK_BATCH}; ++j)`
      const elements = `first + j * ${recipe.threads} < count ? elements : 0`
      out.line('#pragma unroll')
      out.block(batch, () => {
        out.line(`const u64 i = first + j * ${recipe.threads};`)
        out.line('u64 row = i >> 32 ? i / pieces : u64(u32(i) / pieces);')
        out.line('at[j] = u32(i - row * pieces);')
        out.line('to[j] = row * pitch + at[j];')
        out.line(`from[j] = reinterpret_cast<const ${bits}*>(${names.operand(name)});`)
        for (const [i, axis] of outer.entries()) {
          const isLast = i === outer.length - 1
          out.line(`from[j] += i64(row${isLast ? '' : ` % ${extent(axis)}`}) * ${names.stride(name, axis)};`)
          if (!isLast) out.line(`row /= ${extent(axis)};`)
        }
        out.line(`windows[j] = ktl_row_window(from[j], at[j], ${elements}, span);`, where)
      })
      out.line('#pragma unroll')
      out.block(batch, () => {
        out.line(`if (first + j * ${recipe.threads} >= count) break;`)
        out.line('copy[to[j]] = ktl_row_piece(windows[j], from[j], at[j]);', where)
      })
    })
  })
}
