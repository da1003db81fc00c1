/**
 * Operands that vary along n only, loaded ahead of the epilogue: the words of a tile's columns while the last MMAs run. A lane of a
 * fragment has two neighbouring columns of every 8 (register_tile.ts).
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import type { LoadRows } from '../../compiler/ir/pipe_epilogue.ts'
import { note, type EmitContext } from './context.ts'
import { element, expressionText, fromWord, load, operandOf } from './epilogue_values.ts'

const wordsOf = (c: EmitContext, operand: string): string => `ahead_${c.names.value(operand)}`

/** Pairs of columns as words: one for two elements of 8 or 16 bits, two for those of 32. */
export function emitLoadRows(op: LoadRows, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const { storageBytes, cudaStorage } = DTYPES[operand.dtype]
  const words = wordsOf(c, op.operand)
  const where = note(c, `load ${op.operand}`)
  const pairs = c.program.layout.columns / 8
  const perPair = storageBytes === 4 ? 2 : 1
  const stride = c.names.stride(op.operand, c.names.n)
  const at = (n: string): string => element(c, operand, { m: '0', n: `(${n})` })
  const forPairs = (body: () => void): void => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${pairs}; ++i)`, () => {
      c.out.line('const u32 n = at.n + lane % 4 * 2 + 8 * i;')
      body()
    })
  }
  const guard = op.guard === null ? '' : `${expressionText(op.guard, c)} != 0 && `
  c.out.line(`u32 ${words}[${pairs * perPair}];`, where)
  // Pairs are whole, and read as one.
  const aligned = `(reinterpret_cast<u64>(&${at('at.n')}) & ${2 * storageBytes - 1}) == 0`
  c.out.block(`if (${guard}${stride} == 1 && N % 2 == 0 && ${aligned})`, () =>
    forPairs(() => {
      if (perPair === 2) {
        c.out.line(`const uint2 both = n < N ? *reinterpret_cast<const uint2*>(&${at('n')}) : make_uint2(0, 0);`, where)
        c.out.line(`${words}[2 * i] = both.x;`)
        c.out.line(`${words}[2 * i + 1] = both.y;`)
      } else {
        const pair = storageBytes === 2 ? 'u32' : 'u16'
        c.out.line(`${words}[i] = n < N ? *reinterpret_cast<const ${pair}*>(&${at('n')}) : 0;`, where)
      }
    }),
  )
  c.out.block('else', () =>
    forPairs(() => {
      const word = (n: string): string => {
        const raw = at(n)
        const bits =
          cudaStorage === 'float'
            ? `__float_as_uint(${raw})`
            : `static_cast<u32>(${raw})${storageBytes < 4 ? ` & ${2 ** (8 * storageBytes) - 1}` : ''}`
        return `(${guard}${n} < N ? ${bits} : 0)`
      }
      if (perPair === 2) {
        c.out.line(`${words}[2 * i] = ${word('n')};`, where)
        c.out.line(`${words}[2 * i + 1] = ${word('n + 1')};`, where)
      } else {
        c.out.line(`${words}[i] = ${word('n')} | ${word('n + 1')} << ${8 * storageBytes};`, where)
      }
    }),
  )
}

/** The values of a sub-tile out of those words. */
export function emitRowsAhead(operand: TensorOperand, name: string, c: EmitContext): void {
  const { storageBytes, cudaStorage } = DTYPES[operand.dtype]
  const words = wordsOf(c, operand.name)
  const bits =
    storageBytes === 4
      ? `${words}[column / 4 + j]`
      : `(${words}[column / 8 + j / 2] >> j % 2 * ${8 * storageBytes} & ${2 ** (8 * storageBytes) - 1})`
  const raw = storageBytes === 4 ? fromWord(cudaStorage, bits) : `static_cast<${cudaStorage}>${bits}`
  c.out.line('#pragma unroll')
  c.out.line(
    `for (u32 j = 0; j < ${c.tile.rowCount}; ++j) ${name}[j] = ${load(c, operand, raw)};`,
    note(c, `use ${operand.name}`),
  )
}
