/**
 * The kernel that is launched before one whose operands have rows TMA cannot address: it copies them to the workspace, where rows
 * begin at multiples of 128 bytes. Threads take turns over pieces of 16 bytes, neighbours over neighbours, several under way at once.
 */
import type { LaunchRecipe } from '../../compiler/ir/launch.ts'
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import { copyAxes, repackedOf, REPACK_BATCH, ROW_BYTES } from '../../compiler/ir/repack.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { kernelParams } from '../cuda/kernel_params.ts'
import type { SourceBuilder } from '../cuda/source_builder.ts'
import type { KernelNames } from './names.ts'

export const repackEntry = (entry: string): string => `${entry}_repack`

export const REPACK_WRAPPERS: Readonly<Record<string, string>> = {
  row_piece: `struct alignas(16) Piece { u32 words[4]; };

/// The bytes from 16 * \`at\` on of a row of \`elements\`; behind its end, zeros. Reads no byte outside the row: within, two aligned
/// vectors and a shift; at its ends, single elements.
template <typename T> __device__ __forceinline__ Piece row_piece(const T* row, u32 at, u32 elements) {
  constexpr u32 count = 16 / sizeof(T);
  const T* from = row + u64(at) * count;
  const u32 left = elements - at * count, shift = u32(u64(from)) % 16;
  if (shift == 0 && left >= count) return *reinterpret_cast<const Piece*>(from);
  Piece piece = {};
  if (at > 0 && left >= (32 - shift) / sizeof(T)) {
    const Piece* vectors = reinterpret_cast<const Piece*>(u64(from) - shift);
    const Piece low = vectors[0], high = vectors[1];
    u32 words[8];
    #pragma unroll
    for (u32 i = 0; i < 4; ++i) { words[i] = low.words[i]; words[4 + i] = high.words[i]; }
    #pragma unroll
    for (u32 i = 0; i < 6; ++i) words[i] = shift & 8 ? words[i + 2] : words[i];
    #pragma unroll
    for (u32 i = 0; i < 5; ++i) words[i] = shift & 4 ? words[i + 1] : words[i];
    #pragma unroll
    for (u32 i = 0; i < 4; ++i) piece.words[i] = __funnelshift_r(words[i], words[i + 1], 8 * (shift & 3));
    return piece;
  }
  #pragma unroll
  for (u32 i = 0; i < count; ++i)
    if (i < left) piece.words[i * sizeof(T) / 4] |= u32(from[i]) << (8 * (i * sizeof(T) % 4));
  return piece;
}
`,
}

/** Prints the kernel of `recipe`. */
export function emitRepack(
  out: SourceBuilder,
  program: TileProgram,
  recipe: LaunchRecipe,
  names: KernelNames,
  wrappers: Set<string>,
): void {
  wrappers.add('row_piece')
  const declared = kernelParams(recipe.params, names).map(({ type, name }) => `${type} ${name}`)
  out.line('')
  out.line('// ---- copies operands whose rows are not aligned to 16 bytes')
  out.line(`extern "C" __global__ void __launch_bounds__(${recipe.threads}) ${recipe.entry}(`)
  out.line(`    ${declared.join(',\n    ')})`)
  out.block('', () => {
    for (const operand of repackedOf(program.source)) emitCopy(out, operand, recipe, names)
  })
  out.line('')
}

/** Element types as bits. */
const BITS: Readonly<Record<number, string>> = { 1: 'unsigned char', 2: 'u16', 4: 'u32' }

function emitCopy(out: SourceBuilder, operand: TensorOperand, recipe: LaunchRecipe, names: KernelNames): void {
  const { name, dtype } = operand
  const [inner, ...outer] = copyAxes(operand)
  const { storageBytes } = DTYPES[dtype]
  const perPiece = 16 / storageBytes
  const extent = (axis: string): string => {
    const isCarried = recipe.params.some((p) => p.kind === 'carries' && p.operand === name && p.axis === axis)
    return isCarried ? `(${names.carries(name, axis)} ? ${names.extent(axis)} : 1)` : names.extent(axis)
  }
  const bits = BITS[storageBytes]!
  const taken = recipe.threads * REPACK_BATCH
  const where = { role: 'repack', note: `copy ${name}`, ktl: null }
  out.block('', () => {
    out.line(`const u32 elements = ${names.extent(inner!)}, pieces = (elements + ${perPiece - 1}) / ${perPiece};`)
    const pitch = `(elements + ${ROW_BYTES / storageBytes - 1}) / ${ROW_BYTES / storageBytes}`
    out.line(
      `const u64 pitch = ${pitch} * ${ROW_BYTES / 16}, count = ${['u64(pieces)', ...outer.map(extent)].join(' * ')};`,
    )
    out.line(`Piece* const copy = reinterpret_cast<Piece*>(partial_${names.operand(name)});`)
    const step = `for (u64 first = u64(blockIdx.x) * ${taken} + threadIdx.x; first < count; first += u64(gridDim.x) * ${taken})`
    out.block(step, () => {
      out.line(`Piece piece[${REPACK_BATCH}];`)
      out.line(`u64 to[${REPACK_BATCH}];`)
      out.line('#pragma unroll')
      out.block(`for (u32 j = 0; j < ${REPACK_BATCH}; ++j)`, () => {
        out.line(`const u64 i = first + j * ${recipe.threads};`)
        out.line('if (i >= count) break;')
        out.line('u64 row = i >> 32 ? i / pieces : u64(u32(i) / pieces);')
        out.line('const u32 at = u32(i - row * pieces);')
        out.line('to[j] = row * pitch + at;')
        out.line(`const ${bits}* from = reinterpret_cast<const ${bits}*>(${names.operand(name)});`)
        for (const [i, axis] of outer.entries()) {
          const isLast = i === outer.length - 1
          out.line(`from += i64(row${isLast ? '' : ` % ${extent(axis)}`}) * ${names.stride(name, axis)};`)
          if (!isLast) out.line(`row /= ${extent(axis)};`)
        }
        out.line('piece[j] = row_piece(from, at, elements);', where)
      })
      out.line('#pragma unroll')
      out.line(`for (u32 j = 0; j < ${REPACK_BATCH}; ++j)`)
      out.line(`  if (first + j * ${recipe.threads} < count) copy[to[j]] = piece[j];`, where)
    })
  })
}
