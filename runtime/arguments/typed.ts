/**
 * Kernels as the TypeScript of generated modules sees them. Wrong dtypes and ranks are errors of the type checker, and
 * so are operands whose extents or type parameters disagree, as far as these are known: a tensor made with a literal
 * shape has them, a view or a host array may not, and is then checked when it is passed.
 */
import type { KernelFamily } from '../../compiler/family.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { KernelList } from '../discovery/kernel_list.ts'
import type { GetKernelsOptions } from '../discovery/query.ts'
import type { RunResult } from '../kernels/kernel.ts'
import type { CallableKernel } from '../programs/program.ts'
import type { Tensor } from '../tensors/tensor.ts'
import type { Known, known } from '../devices/device.ts'
import type { TensorLike } from '../tensors/tensor_like.ts'

/** An operand with these dtypes and ranks (default: any), unless it is known to have others. */
export type TensorOf<D extends DTypeName, Rank extends number = any> =
  | (Tensor & { readonly [known]?: Accepted<D, Rank> })
  | (Extract<TensorLike, { readonly pointer: bigint }> & { readonly dtype: D; readonly [known]?: never })
  | Exclude<TensorLike, { readonly pointer: bigint }>

/** One member for each pair, so that an operand of unknown rank fits and one of another rank does not. */
type Accepted<D, Rank> = D extends unknown ? (Rank extends unknown ? Known<D, Rank> : never) : never

/** Name, axes in logical order (`l?`: may be left out) and type parameter of each operand, inputs first. */
export type OperandTypes = readonly (readonly [name: string, axes: readonly string[], parameter: string | null])[]

/** A kernel whose arguments the type checker checks. `program.kernels.NAME` is the same without. */
export interface TypedKernel<Arguments, Operands extends OperandTypes> {
  /** The best kernel for the arguments is found, compiled and run. KTL4042 when there is none. */
  <const Given extends Arguments>(
    args: Given & Agreeing<Given, Operands> & NoOther<Given, Arguments>,
    options?: Parameters<CallableKernel>[1],
  ): Promise<RunResult>
  readonly family: KernelFamily
  /** Kernels that support the arguments, best first. */
  getKernels<const Given extends Arguments>(
    args: Given & Agreeing<Given, Operands> & NoOther<Given, Arguments>,
    options?: GetKernelsOptions,
  ): KernelList
  readonly getInstances: CallableKernel['getInstances']
}

type NoOther<Given, Arguments> = { readonly [Name in Exclude<keyof Given, keyof Arguments>]: never }

/** Demands the impossible, in words, of each operand that contradicts the operands before it. */
export type Agreeing<Given, Operands extends OperandTypes, Facts = {}, Demands = unknown> = Operands extends readonly [
  readonly [infer Name extends string, infer Axes extends readonly string[], infer Parameter],
  ...infer Rest extends OperandTypes,
]
  ? Name extends keyof Given
    ? Agreeing<
        Given,
        Rest,
        Facts & Certain<FactsOf<Given[Name], Axes, Parameter>>,
        Demands & Demand<Name, Facts, FactsOf<Given[Name], Axes, Parameter>>
      >
    : Agreeing<Given, Rest, Facts, Demands>
  : Demands

type Demand<Name extends string, Before, Here> = [Contradiction<Before, Here>] extends [never]
  ? unknown
  : { readonly [Operand in Name]: Contradiction<Before, Here> }

type Contradiction<Before, Here> = {
  [Fact in keyof Before & keyof Here]: Here[Fact] extends Before[Fact]
    ? never
    : Before[Fact] extends Here[Fact]
      ? never
      : `${Fact & string} is ${Here[Fact] & (string | number)} here and ${Before[Fact] & (string | number)} in the operands before`
}[keyof Before & keyof Here]

/** Extents that are literals, dtypes that are one. */
type Certain<Facts> = {
  [
    Fact in keyof Facts as number extends Facts[Fact] ? never : DTypeName extends Facts[Fact] ? never : Fact
  ]: Facts[Fact]
}

/** `{ 'axis m': 8, 'type T': 'f16' }` */
type FactsOf<Value, Axes extends readonly string[], Parameter> = ShapeFacts<Value, Axes> &
  (Parameter extends string
    ? Value extends { readonly dtype: infer D extends DTypeName }
      ? { readonly [Fact in `type ${Parameter}`]: D }
      : {}
    : {})

type ShapeFacts<Value, Axes extends readonly string[]> =
  ShapeOf<Value> extends infer Shape extends readonly number[]
    ? number extends Shape['length']
      ? {}
      : Zipped<Carried<Axes, Shape['length']>, Shape>
    : {}

/** The `shape` of a typed tensor is an intersection with that of its class, which cannot be taken apart. */
type ShapeOf<Value> = Value extends Tensor
  ? Value extends { readonly [known]?: { readonly shape: infer Shape } }
    ? Shape
    : null
  : Value extends { readonly shape: infer Shape }
    ? Shape
    : null

/** A lower rank leaves out optional axes, outermost first. */
type Carried<Axes extends readonly string[], Rank extends number> = Axes['length'] extends Rank
  ? Axes
  : WithoutOptional<Axes> extends infer Fewer extends readonly string[]
    ? Carried<Fewer, Rank>
    : readonly []

type WithoutOptional<Axes extends readonly string[]> = Axes extends readonly [
  infer First extends string,
  ...infer Rest extends readonly string[],
]
  ? First extends `${string}?`
    ? Rest
    : WithoutOptional<Rest> extends infer Fewer extends readonly string[]
      ? readonly [First, ...Fewer]
      : null
  : null

type Zipped<Axes extends readonly string[], Shape extends readonly number[]> = Axes extends readonly [
  infer Axis extends string,
  ...infer Others extends readonly string[],
]
  ? Shape extends readonly [infer Extent extends number, ...infer Extents extends readonly number[]]
    ? { readonly [Fact in `axis ${Bare<Axis>}`]: Extent } & Zipped<Others, Extents>
    : {}
  : {}

type Bare<Axis extends string> = Axis extends `${infer Name}?` ? Name : Axis
