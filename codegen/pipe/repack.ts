/**
 * The kernel that is launched before one whose operands have rows TMA cannot address: it copies them to the workspace, where rows
 * begin at multiples of 128 bytes. Lanes side by side copy pieces of 16 bytes of a row side by side, several under way at once: as many lanes as a row has
 * pieces, up to a warp.
 */
import type { LaunchRecipe } from '../../compiler/ir/launch.ts'
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import { copyAxes, repackedOf, REPACK_BATCH, REPACK_SHARE, ROW_BYTES } from '../../compiler/ir/repack.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { BITS_TYPE, spanOf } from '../cuda/device/rows.ts'
import { kernelParams } from '../cuda/kernel_params.ts'
import type { LineOrigin, SourceBuilder } from '../cuda/source_builder.ts'
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
  functions
    .add('ktl_span_of')
    .add('ktl_load_piece')
    .add('ktl_shifted_piece')
    .add('ktl_cut_piece')
    .add('ktl_element_piece')
  const declared = kernelParams(recipe.params, names).map(({ type, name }) => `${type} ${name}`)
  out.line('')
  out.line('// ---- copies operands whose rows are not aligned to 16 bytes')
  out.line(`extern "C" __global__ void __launch_bounds__(${recipe.threads}, ${REPACK_SHARE}) ${recipe.entry}(`)
  out.line(`    ${declared.join(',\n    ')})`)
  out.block('', () => {
    out.line('asm volatile("griddepcontrol.launch_dependents;");  // the setup of the next kernel')
    out.line(`const u32 threads = gridDim.x * ${recipe.threads};`)
    out.line(`u32 thread = blockIdx.x * ${recipe.threads} + threadIdx.x;`)
    const repacked = repackedOf(program.source)
    for (const operand of repacked) emitCopy(out, operand, recipe, names, operand === repacked.at(-1))
  })
  out.line('')
}

/** An operand on its way, in pieces of 16 bytes. */
interface Copied {
  /** Of an element. */
  readonly bytes: number
  /** Elements of a piece. */
  readonly perPiece: number
  readonly where: LineOrigin
}

function emitCopy(
  out: SourceBuilder,
  operand: TensorOperand,
  recipe: LaunchRecipe,
  names: KernelNames,
  isLast: boolean,
): void {
  const { name, dtype } = operand
  const [inner, ...outer] = copyAxes(operand)
  const bytes = DTYPES[dtype].storageBytes
  const perPiece = 16 / bytes
  const extent = (axis: string): string => {
    const isCarried = recipe.params.some((p) => p.kind === 'carries' && p.operand === name && p.axis === axis)
    return isCarried ? `(${names.carries(name, axis)} ? ${names.extent(axis)} : 1)` : names.extent(axis)
  }
  const perRow = ROW_BYTES / bytes
  out.block('', () => {
    out.line(`const u32 elements = ${names.extent(inner!)}, pieces = (elements + ${perPiece - 1}) / ${perPiece};`)
    out.line('// A row of the copy has 128 bytes at least: there are no 2^32 of them.')
    out.line(`const u32 rows = ${outer.map(extent).join(' * ') || '1'};`)
    out.line(`const u32 pitch = (elements + ${perRow - 1}) / ${perRow} * ${ROW_BYTES / 16};`)
    out.line(`const ktl_span span = ${spanOf(operand, names, extent)};`)
    emitShares(out)
    out.block('for (u32 i = thread >> log; i < rows * shares; i += groups)', () => {
      out.line('u32 row = shares == 1 ? i : i / shares, at = (i - row * shares) * share + (threadIdx.x & (lanes - 1));')
      out.line(
        `ktl_piece* to = reinterpret_cast<ktl_piece*>(partial_${names.operand(name)}) + (u64(row) * pitch + at);`,
      )
      out.line(
        `const ${BITS_TYPE[bytes]!}* from = reinterpret_cast<const ${BITS_TYPE[bytes]!}*>(${names.operand(name)});`,
      )
      for (const [i, axis] of outer.entries()) {
        const isLast = i === outer.length - 1
        out.line(`from += i64(row${isLast ? '' : ` % ${extent(axis)}`}) * ${names.stride(name, axis)};`)
        if (!isLast) out.line(`row /= ${extent(axis)};`)
      }
      emitTurns(out, { bytes, perPiece, where: { role: 'repack', note: `copy ${name}`, ktl: null } })
    })
    if (isLast) return
    out.line('// Warps without rows of this operand take those of the next.')
    out.line('const u32 taken = ((rows * shares % groups << log) + 31) / 32 * 32;')
    out.line('thread = thread >= taken ? thread - taken : thread + threads - taken;')
  })
}

/**
 * Declares how lanes share a row: as many of them as it has pieces, up to a warp, each of which takes its pieces of a share in turns. A row is one share
 * where all lanes of the grid have that much to do.
 */
function emitShares(out: SourceBuilder): void {
  out.line('const u32 log = pieces > 16 ? 5 : pieces > 1 ? 32 - __clz(pieces - 1) : 0, lanes = 1u << log;')
  out.line(`const u32 groups = threads >> log, step = lanes * ${REPACK_BATCH};  // of lanes; pieces of a turn`)
  out.line('const u32 all = u32(__fdividef(float(rows) * pieces, groups * float(step)));')
  out.line(
    `const u32 turns = max(min(all, (pieces + step - 1) >> (log + ${Math.log2(REPACK_BATCH)})), 1), share = step * turns;`,
  )
  out.line('const u32 shares = (pieces + share - 1) / share;')
}

const BATCH = `for (u32 j = 0; j < ${REPACK_BATCH}; ++j)`

/** The pieces of a lane of a share. All but the first of the operand and the last ones lie in two vectors of it. */
function emitTurns(out: SourceBuilder, { bytes, perPiece, where }: Copied): void {
  out.line(`const u64 first = (u64)__cvta_generic_to_global(from) + at * 16ull;`)
  out.line('u64 aligned = first / 16 * 16;')
  out.line('// Pieces from `at` on whose two vectors end in the operand; those of the first one may begin before it.')
  out.line(
    'u32 plain = aligned + 32 <= span.last && at < pieces ? u32(min(u64(pieces - at), (span.last - aligned) / 16 - 1)) : 0;',
  )
  out.line('bool early = aligned < span.first;')
  out.line('#pragma unroll 1')
  out.block('for (u32 turn = 0; turn < turns && at < pieces; ++turn)', () => {
    out.line(`ktl_piece low[${REPACK_BATCH}], high[${REPACK_BATCH}];`)
    const forPlain = (body: () => void): void => {
      out.line('#pragma unroll')
      out.block(BATCH, () => {
        out.line('if (j * lanes >= plain || (j == 0 && early)) continue;')
        body()
      })
    }
    forPlain(() => {
      out.line('low[j] = ktl_load_piece(aligned + j * lanes * 16);', where)
      out.line('high[j] = ktl_load_piece(aligned + j * lanes * 16 + 16);', where)
    })
    forPlain(() => {
      out.line('ktl_piece piece = ktl_shifted_piece(low[j], high[j], u32(first % 16));', where)
      const left = `elements % ${perPiece} * ${bytes}`
      out.line(`if ((at + j * lanes + 1) * ${perPiece} > elements) piece = ktl_cut_piece(piece, ${left});`)
      out.line('to[j * lanes] = piece;', where)
    })
    out.block(`if (plain <= lanes * ${REPACK_BATCH - 1} || early)`, () => {
      out.line('#pragma unroll 1')
      out.block(BATCH, () => {
        out.line('const u32 piece = at + j * lanes;')
        out.line('if ((j * lanes < plain && !(j == 0 && early)) || piece >= pieces) continue;')
        out.line(`const u32 bytes = min((elements - piece * ${perPiece}) * ${bytes}, 16);`)
        out.line('to[j * lanes] = ktl_element_piece(ktl_piece{}, from, piece, bytes);', where)
      })
    })
    out.line('at += step, to += step, aligned += step * 16, plain -= min(plain, step), early = false;')
  })
}
