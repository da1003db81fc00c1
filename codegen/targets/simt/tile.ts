/** A pass whose contractions go through shared memory: each CTA walks m x n tiles, a thread owns one element of it. */
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../../compiler/dtypes.ts'
import type { Node } from '../../../compiler/ir/tensor.ts'
import { literal, loadConversion, storeConversion } from '../../cuda/expression.ts'
import type { SimtPass, SimtTile, TileBuffer } from '../../../compiler/targets/simt/plan.ts'
import { accumulate, element, finishAccumulator, indexName, splitIndex, type SimtContext } from './scope.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'

const bufferName = (context: SimtContext, { operand, side }: TileBuffer): string =>
  `${side}_of_${context.names.operand(operand)}`

/** Emits the pass; `body` emits the elementwise part with the names of the contractions' values. */
export function emitTilePass(
  context: SimtContext,
  pass: SimtPass,
  threads: number,
  body: (known: [Node, string][]) => void,
): void {
  const { out, names } = context
  const tile = pass.tile!
  const { m, n, k, extents } = tile
  const [tileM, tileN, tileK] = extents
  for (const buffer of tile.buffers) {
    const [rows, columns] = buffer.side === 'rows' ? [tileM, tileK] : [tileK, tileN]
    out.line(`__shared__ ${CUDA_COMPUTE_TYPE[buffer.type]} ${bufferName(context, buffer)}[${rows}][${columns + 1}];`)
  }
  out.line(`const int row = threadIdx.x / ${tileN}, column = threadIdx.x % ${tileN};`)
  const outer = pass.axes.filter((axis) => axis !== m && axis !== n)
  const tiles = (axis: string, extent: number): string => `(${names.extent(axis)} + ${extent - 1}LL) / ${extent}`
  out.line(`const long long tiles_m = ${tiles(m, tileM)}, tiles_n = ${tiles(n, tileN)};`)
  out.line(`const long long tiles = ${['tiles_m', 'tiles_n', ...outer.map((axis) => names.extent(axis))].join(' * ')};`)
  out.block('for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x)', () => {
    out.line('long long rest = tile;')
    out.line(`const long long first_column = rest % tiles_n * ${tileN};`)
    out.line('rest /= tiles_n;')
    out.line(`const long long first_row = ${outer.length > 0 ? 'rest % tiles_m' : 'rest'} * ${tileM};`)
    if (outer.length > 0) out.line('rest /= tiles_m;')
    splitIndex(context, outer, 'rest')
    out.line(
      `const long long ${indexName(context, m)} = first_row + row, ${indexName(context, n)} = first_column + column;`,
    )
    const sums = tile.contractions.map(({ node }) => {
      const name = `sum_${context.temporaries.count++}`
      out.line(`${CUDA_COMPUTE_TYPE[node.type]} ${name} = ${literal(node.type, 0).text};`, { ktl: node.span, note: 'accumulator' }) // prettier-ignore
      return name
    })
    out.block(`for (long long first_k = 0; first_k < ${names.extent(k)}; first_k += ${tileK})`, () => {
      for (const buffer of tile.buffers) emitTileLoad(context, tile, buffer, threads)
      out.line('__syncthreads();')
      out.line('#pragma unroll 8')
      out.block(`for (int k = 0; k < ${tileK}; ++k)`, () => {
        for (const [i, { node, rows, columns }] of tile.contractions.entries()) {
          const [a, b] = [`${bufferName(context, rows)}[row][k]`, `${bufferName(context, columns)}[k][column]`]
          out.line(accumulate(context, node.type, sums[i]!, a, b), { ktl: node.span, note: 'contraction' })
        }
      })
      out.line('__syncthreads();')
    })
    for (const [i, { node }] of tile.contractions.entries()) finishAccumulator(context, node, sums[i]!)
    const inBounds = [m, n].map((axis) => `${indexName(context, axis)} < ${names.extent(axis)}`).join(' && ')
    out.block(`if (${inBounds})`, () => body(tile.contractions.map(({ node }, i) => [node, sums[i]!])))
  })
}

/** All threads load one operand's tile, along its contiguous axis; 0 outside the tensor. */
function emitTileLoad(context: SimtContext, tile: SimtTile, buffer: TileBuffer, threads: number): void {
  const { out, names, program, functions } = context
  const [tileM, tileN, tileK] = tile.extents
  const operand = operandNamed(program, buffer.operand)
  const { free, first, extent } =
    buffer.side === 'rows'
      ? { free: tile.m, first: 'first_row', extent: tileM }
      : { free: tile.n, first: 'first_column', extent: tileN }
  const kFastest = operand.order.at(-1) === tile.k
  const [x, k] = kFastest ? [`i / ${tileK}`, `i % ${tileK}`] : [`i % ${extent}`, `i / ${extent}`]
  out.block(`for (int i = threadIdx.x; i < ${extent * tileK}; i += ${threads})`, () => {
    out.line(`const int x = ${x}, k = ${k};`)
    const at = { [free]: `(${first} + x)`, [tile.k]: '(first_k + k)' }
    const loaded = loadConversion(operand.dtype, element(context, operand.name, at), functions)
    const value = buffer.roundTf32 ? storeConversion('tf32', 'f32', loaded, functions) : loaded
    const slot = `${bufferName(context, buffer)}${buffer.side === 'rows' ? '[x][k]' : '[k][x]'}`
    const inside = `${first} + x < ${names.extent(free)} && first_k + k < ${names.extent(tile.k)}`
    const zero = literal(DTYPES[operand.dtype].compute, 0).text
    out.line(`${slot} = ${inside} ? ${value} : ${zero};`, { note: `tile of ${operand.name}` })
  })
}
