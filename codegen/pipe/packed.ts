/**
 * Tile IR → CUDA statements: outputs of less than a byte, contiguous along n. Of 4 bits two neighbours are a byte, the first one in its
 * lower half; of 6 bits four neighbours are three bytes, the lowest bits first.
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { note, type EmitContext } from './context.ts'
import { elementIndex, storedBits } from './epilogue_values.ts'

export const emitPacked = (operand: TensorOperand, c: EmitContext): void =>
  DTYPES[operand.dtype].bits === 4 ? emitNibbles(operand, c) : emitSixes(operand, c)

/** The widest vectors that so many words are a multiple of, and one of them, of the texts of its words. */
function vectorOf(words: number) {
  const vector = words % 4 === 0 ? 4 : words % 2 === 0 ? 2 : 1
  const type = vector === 1 ? 'u32' : `uint${vector}`
  const of = (word: (w: number) => string): string => {
    const parts = Array.from({ length: vector }, (_, w) => word(w)).join(', ')
    return vector === 1 ? parts : `make_${type}(${parts})`
  }
  return { vector, type, of }
}

/** A lane has both elements of each byte. The byte behind a row of odd length has nothing in its upper half. */
function emitNibbles(operand: TensorOperand, c: EmitContext): void {
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
  const { vector, type, of } = vectorOf(words)
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
          c.out.line(`reinterpret_cast<${type}*>(to)[i / ${vector}] = ${of((w) => `words[${w}]`)};`, where)
        })
      },
    )
    c.out.block('else', byPairs)
  })
}

const SIX = 6
/** Elements of 6 bits that are whole words, and words of them. */
const WHOLE = { elements: 16, words: 3 } as const

/** The bits of so many elements from `first` on that lie in the word `w` of them. */
function wordOfSixes(bits: (j: string) => string, first: string, w: number): string {
  const parts = Array.from({ length: WHOLE.elements }, (_, i) => ({ i, shift: SIX * i - 32 * w }))
    .filter(({ shift }) => shift > -SIX && shift < 32)
    .map(({ i, shift }) => `${bits(`${first} + ${i}`)} ${shift < 0 ? `>> ${-shift}` : `<< ${shift}`}`)
  return parts.join(' | ')
}

/** Byte b of four elements begins in element b: it is there where that is. What lies behind n is 0. */
function emitSixes(operand: TensorOperand, c: EmitContext): void {
  const where = note(c, `store ${operand.name}`)
  const { tile } = c
  const { subtileColumns, layout } = c.program
  const edge = c.names.edge('n')
  const bits = (j: string): string => `(${storedBits(c, operand.name, j)} & 0x3f)`
  /** Rows begin with a byte, so that strides are multiples of four elements. */
  const address = (j: string, column: string): string => {
    const index = elementIndex(c, operand, { m: `(${tile.row(j)})`, n: `(${column})` })
    return `${c.names.operand(operand.name)} + (${index}) / 4 * 3`
  }
  const inside = (j: string): string => `(${tile.col(j)} < ${edge} ? ${bits(j)} : 0)`
  /** The bytes of `four` that are this lane's. */
  const storeBytes = (mine: string): void => {
    c.out.line('#pragma unroll')
    c.out.line(
      `for (u32 b = 0; b < 3; ++b) if (${mine}first + b < ${edge}) to[b] = static_cast<unsigned char>(four >> 8 * b);`,
      where,
    )
  }
  if (layout.held === 'fragment') {
    // Two lanes have two of the four each.
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 j = 0; j < ${tile.count}; j += 2)`, () => {
      c.out.line(`const u32 two = ${inside('j')} | ${inside('(j + 1)')} << ${SIX};`, where)
      c.out.line('const u32 other = __shfl_xor_sync(~0u, two, 1);')
      c.out.line(`const u32 four = lane % 2 == 0 ? two | other << ${2 * SIX} : other | two << ${2 * SIX};`)
      c.out.line(`const u32 first = ${tile.col('j')} - lane % 2 * 2;`)
      c.out.line(`unsigned char* to = ${address('j', 'first')};`, where)
      storeBytes(`lane % 2 == b / 2 && ${tile.rowInBounds('j')} && `)
    })
    return
  }
  const byFours = (): void => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 j = 0; j < ${tile.count}; j += 4)`, () => {
      c.out.line(`const u32 first = ${tile.col('j')};`)
      const four = [0, 1, 2, 3].map((i) => `${inside(i > 0 ? `(j + ${i})` : 'j')}${i > 0 ? ` << ${SIX * i}` : ''}`)
      c.out.line(`const u32 four = ${four.join(' | ')};`, where)
      c.out.line(`unsigned char* to = ${address('j', 'first')};`, where)
      storeBytes('')
    })
  }
  c.out.block(`if (${tile.rowInBounds('0')})`, () => {
    if (subtileColumns % WHOLE.elements !== 0) return byFours()
    const words = (subtileColumns / WHOLE.elements) * WHOLE.words
    const { vector, type, of } = vectorOf(words)
    c.out.line(`unsigned char* row_bytes = ${address('0', 'col')};`, where)
    const isWhole = `col + ${subtileColumns} <= ${edge} && reinterpret_cast<u64>(row_bytes) % ${4 * vector} == 0`
    c.out.block(`if (${isWhole})`, () => {
      c.out.line(`u32 words[${words}];`)
      c.out.line('#pragma unroll')
      c.out.block(`for (u32 i = 0; i < ${subtileColumns / WHOLE.elements}; ++i)`, () => {
        for (let w = 0; w < WHOLE.words; w++)
          c.out.line(
            `words[${WHOLE.words} * i${w > 0 ? ` + ${w}` : ''}] = ${wordOfSixes(bits, `${WHOLE.elements} * i`, w)};`,
            where,
          )
      })
      c.out.line('#pragma unroll')
      const value = of((w) => `words[i${w > 0 ? ` + ${w}` : ''}]`)
      c.out.line(
        `for (u32 i = 0; i < ${words}; i += ${vector}) reinterpret_cast<${type}*>(row_bytes)[i / ${vector}] = ${value};`,
        where,
      )
    })
    c.out.block('else', byFours)
  })
}
