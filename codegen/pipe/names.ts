/** CUDA identifiers of a tensor-core kernel. User names are mangled: they never reach the text as they are. */
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'
import { axisTexts, freeSide } from '../../compiler/space/domain.ts'
import type { ParamText } from '../cuda/kernel_params.ts'
import { Mangler } from '../cuda/mangle.ts'

export interface KernelNames extends ParamText {
  /** Axes of the output tile. */
  readonly m: string
  readonly n: string
  readonly l: string | null
  /** Register value(s) of an operand in the epilogue. */
  value(name: string): string
  /** Where rows, or columns, of operands of MMAs end: with the output, or with the group. */
  end(free: 'm' | 'n'): string
  /** Where those of outputs end. */
  edge(free: 'm' | 'n'): string
  /** Where those of the tile begin, and the axis that they are along. */
  origin(free: 'm' | 'n'): string
  free(free: 'm' | 'n'): string
  /** Where a sum over this axis ends. */
  depthEnd(axis: string): string
  /** Third coordinate of an operand's tensor map, or null when it has no batch axis. */
  batchCoordinate(operand: string): string | null
}

export function kernelNames({ source, domain }: Pick<TileProgram, 'source' | 'domain'>): KernelNames {
  const mangler = new Mangler()
  const texts = axisTexts(domain)
  const [m, n, l] = [domain.rows.axis, domain.columns.axis, domain.batch]
  const operand = (name: string): string => mangler.name('op', name)
  const times = (free: 'm' | 'n'): string => {
    const { ways } = freeSide(domain, free)
    return ways === 1 ? '' : `${ways} * `
  }
  const edge = (free: 'm' | 'n'): string => (domain.groups?.along === free ? 'at.end' : free.toUpperCase())
  const carries = (name: string, axis: string): string => `${operand(name)}_carries_${texts.get(axis)!.index}`
  return {
    m,
    n,
    l,
    operand,
    value: (name) => mangler.name('v', name),
    stride: (name, axis) => `${operand(name)}_${texts.get(axis)?.index ?? mangler.name('along', axis)}`,
    scalar: (name) => mangler.name('s', name),
    scalarAt: (name) => mangler.name('at', name),
    extent: (axis) => texts.get(axis)?.extent ?? mangler.name('x', axis),
    carries,
    end: (free) => `${times(free)}${edge(free)}`,
    edge,
    origin: (free) => `${times(free)}at.${free}`,
    free: (free) => freeSide(domain, free).axis,
    depthEnd: (axis) => (domain.sums ? 'at.k_end' : texts.get(axis)!.extent),
    batchCoordinate: (name) => {
      const { axes, role } = operandNamed(source, name)
      if (l === null || !axes.includes(l)) return null
      // An input may be left without its batch axis at a call; its map then has one batch.
      const optional = source.axes.find((a) => a.name === l)!.optional
      return optional && role === 'input' ? `at.l * ${carries(name, l)}` : 'at.l'
    },
  }
}
