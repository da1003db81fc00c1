/** The words of the language, and what they are for, as hovers and completions say it. */
import {
  AXIS_FUNCTION_NAMES,
  DERIVED_REDUCTION_NAMES,
  FUNCTION_NAMES,
  REDUCTION_NAMES,
  type Keyword,
} from '../../grammar/vocabulary.ts'

/** Whatever is called with brackets. */
export const FUNCTIONS_OF_LANGUAGE: ReadonlySet<string> = new Set([
  ...FUNCTION_NAMES,
  ...REDUCTION_NAMES,
  ...DERIVED_REDUCTION_NAMES,
  ...AXIS_FUNCTION_NAMES,
])

export const KEYWORD_TEXTS: Readonly<Record<Keyword, string>> = {
  kernel: 'Declares a kernel: operands with named axes, and equations over them.',
  epilogue:
    'Before a name, declares an epilogue that kernels call. As `epilogue(acc)`, the whole right side of an output, it is a slot that callers may fill.',
  schedule: 'Says which designs of a kernel are considered on a target. What it leaves out is `auto`.',
  on: 'Names the target of a schedule.',
  return: 'What an epilogue gives.',
  ragged:
    '`ragged t by off as g`: groups `g` lie one behind another along `t`, and `off[g]` is where each ends. `ragged m upto len as g`: of the rows of each group the first `len[g]` count.',
  by: '`ragged t by off as g`: the operand that says where each group ends.',
  as: '`ragged t by off as g`: the axis of the groups.',
  upto: '`ragged m upto len as g`: the operand that says how many rows of each group count.',
  approx: 'Functions of the kernel may use forms that are faster and less accurate; its metadata say so.',
  precise: 'Functions of the kernel use no shorter forms.',
  def: 'Begins an epilogue string in the spelling of Python.',
  size: '`size(k)`: the extent of an axis.',
  else: '`X[i - 1] else 0`: what a read outside of the operand gives.',
  axis: '`axis j = size(h) / size(hk)`: the extent of an axis that no operand declares.',
}

export const REDUCTION_TEXTS: Readonly<Record<string, string>> = {
  sum: 'The sum over axes. Of a product of two factors that both carry them it is a contraction, which tensor cores compute.',
  min: 'The smallest value along axes; NaN if one is.',
  max: 'The largest value along axes; NaN if one is.',
  mean: 'The sum over axes, divided by their extent.',
  softmax: 'exp(x - max) / sum(exp(x - max)) along axes.',
  logsumexp: 'log(sum(exp(x))) along axes, without overflow.',
  var: 'The mean of squared differences from the mean along axes.',
}

export const AXIS_FUNCTION_TEXTS: Readonly<Record<(typeof AXIS_FUNCTION_NAMES)[number], string>> = {
  size: 'The extent of an axis.',
  start: 'Where the group of a row begins on its ragged axis.',
  length: 'How many rows the group of a row has on its ragged axis.',
}

/** The keys of schedules; a test looks that each has its line. */
export const ENTRY_TEXTS: Readonly<Record<string, string>> = {
  mma: 'How many CTAs one MMA spans.',
  tile: 'Rows x columns of the tile that a CTA, or a pair of them, computes.',
  cluster: 'CTAs that run together, along rows and columns: they share loads.',
  fallback: 'The cluster that runs where the preferred one does not fit.',
  scheduler: 'How work items are handed out: `static`, or `clc` by the hardware as CTAs become free.',
  operands: '`ba` computes the transpose, so that few rows become few columns of the MMA.',
  patch: 'Rows x columns of results that each thread has of a product of matrices.',
  vector: 'For how many rows, or columns, of one operand a CTA reads the other one, once and without tiles.',
  f32: '`tf32x3` multiplies f32 on tensor cores as three products of tf32, about as exactly; `fma` on the CUDA cores.',
  stages: 'Slots of the ring that operands go through.',
  depth: 'Bytes of k that a slot of the ring has: fewer where sums are short.',
  reassociate: 'Sums may be split and added in another order: results may differ between runs in the last bits.',
  parts: 'Into how many parts the summed axis is cut; they are work items of their own, and are added up in memory.',
  share:
    'So many tiles share work items: whoever ends one goes on with the next, so that parts fill the SMs between whole numbers.',
  splits: 'Into how many parts the summed axis is split; the parts are added up afterwards.',
  overlap:
    'Tiles share 32 bytes of the columns of each row: outputs whose rows begin anywhere leave in whole sectors of memory.',
  consumers: 'How warpgroups share a tile: `cooperative` on one, `pingpong` each on its own.',
}
