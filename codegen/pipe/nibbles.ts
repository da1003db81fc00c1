/** Tile IR → CUDA statements: outputs of 4 bits, two neighbours along n in a byte, the first one in its lower half. */
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { note, type EmitContext } from './context.ts'
import { elementIndex, storedBits } from './epilogue_values.ts'

/** A lane has both elements of each byte. The byte behind a row of odd length has nothing in its upper half. */
export function emitNibbles(operand: TensorOperand, c: EmitContext): void {
  const where = note(c, `store ${operand.name}`)
  const { tile } = c
  const { subtileColumns, layout } = c.program
  const base = c.names.operand(operand.name)
  const bits = (j: string): string => `(${storedBits(c, operand.name, j)} & 0xf)`
  const both = (j: string): string => `${bits(j)} | ${bits(`${j} + 1`)} << 4`
  const address = (j: string): string => {
    const at = { m: `(${tile.row(j)})`, n: `(${tile.col(j)})` }
    return `${base} + (${elementIndex(c, operand, at)}) / 2`
  }
  const byPairs = (): void => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 j = 0; j < ${tile.count}; j += 2)`, () => {
      const inside = `${tile.col('j')} < ${c.names.edge('n')}`
      c.out.block(`if (${layout.held === 'row' ? inside : `${tile.rowInBounds('j')} && ${inside}`})`, () => {
        c.out.line(
          `const u32 pair = ${bits('j')} | (${tile.col('j')} + 1 < ${c.names.edge('n')} ? ${bits('j + 1')} : 0) << 4;`,
          where,
        )
        c.out.line(`*(${address('j')}) = static_cast<unsigned char>(pair);`, where)
      })
    })
  }
  if (layout.held === 'fragment') return byPairs()
  const words = subtileColumns / 8
  const vector = words % 4 === 0 ? 4 : words % 2 === 0 ? 2 : 1
  const type = vector === 1 ? 'u32' : `uint${vector}`
  c.out.block(`if (${tile.rowInBounds('0')})`, () => {
    c.out.line(`unsigned char* to = ${address('0')};`, where)
    c.out.block(
      `if (col + ${subtileColumns} <= ${c.names.edge('n')} && reinterpret_cast<u64>(to) % ${4 * vector} == 0)`,
      () => {
        c.out.line('#pragma unroll')
        c.out.block(`for (u32 i = 0; i < ${words}; i += ${vector})`, () => {
          c.out.line(`u32 words[${vector}];`)
          c.out.line('#pragma unroll')
          c.out.block(`for (u32 w = 0; w < ${vector}; ++w)`, () => {
            const bytes = [0, 1, 2, 3].map((byte) => `(${both(`8 * (i + w) + ${2 * byte}`)}) << ${8 * byte}`)
            c.out.line(`words[w] = ${bytes.join(' | ')};`, where)
          })
          const parts = Array.from({ length: vector }, (_, w) => `words[${w}]`).join(', ')
          c.out.line(
            `reinterpret_cast<${type}*>(to)[i / ${vector}] = ${vector === 1 ? parts : `make_${type}(${parts})`};`,
            where,
          )
        })
      },
    )
    c.out.block('else', byPairs)
  })
}
