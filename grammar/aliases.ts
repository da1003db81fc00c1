/**
 * What numpy, PyTorch and C call things that ktl has under another name, or as a formula: for "did you mean" beyond
 * slips of the pen. Not names of the language.
 */

/** Functions that take the same arguments in the same order: the name can be replaced. */
export const SAME_FUNCTION = renamed({
  select: 'where',
  max: 'maximum fmax',
  min: 'minimum fmin',
  abs: 'absolute fabs fabsf',
  neg: 'negative',
  pow: 'power float_power powf',
  mod: 'remainder floormod floor_mod',
  clamp: 'clip',
  round: 'rint roundeven nearbyint around round_',
  exp: 'expf __expf',
  exp2: 'exp2f',
  log: 'ln logf __logf',
  sqrt: 'sqrtf',
  rsqrt: 'rsqrtf inverse_sqrt',
  tanh: 'tanhf',
  sin: 'sinf',
  cos: 'cosf',
  erf: 'erff',
  sign: 'sgn signum',
  sigmoid: 'expit logistic',
  silu: 'swish',
  hardswish: 'hard_swish',
  leaky_relu: 'leakyrelu lrelu',
  gelu_tanh: 'gelu_new gelu_fast gelu_approx',
  fma: 'fmaf',
})

/** Number formats, as types and as casts. */
export const SAME_DTYPE = renamed({
  f64: 'float64 double',
  f32: 'float32 float',
  f16: 'float16 half',
  bf16: 'bfloat16',
  e4m3: 'float8_e4m3fn float8_e4m3',
  e5m2: 'float8_e5m2',
  i32: 'int32 int',
  u32: 'uint32',
  i8: 'int8',
  u8: 'uint8',
})

/** Functions that are a formula here. */
export const FORMULAS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    fmod: 'select(x < 0, -mod(-x, abs(y)), mod(x, abs(y)))',
    relu6: 'clamp(x, 0, 6)',
    hardtanh: 'clamp(x, -1, 1)',
    hardsigmoid: 'clamp(x + 3, 0, 6) / 6',
    mish: 'x * tanh(softplus(x))',
    quick_gelu: 'x * sigmoid(1.702 * x)',
    softsign: 'x / (1 + abs(x))',
    logsigmoid: '-softplus(-x)',
    log_sigmoid: '-softplus(-x)',
    selu: '1.0507009873554805 * elu(x, 1.6732632423543772)',
    celu: 'elu(x / alpha) * alpha',
    tanhshrink: 'x - tanh(x)',
    erfc: '1 - erf(x)',
    log10: 'log2(x) * 0.3010299956639812',
    exp10: 'pow(10, x)',
    logaddexp: 'max(x, y) + softplus(-abs(x - y))',
    tan: 'sin(x) / cos(x)',
    sinh: '(expm1(x) - expm1(-x)) / 2',
    cosh: '(exp(x) + exp(-x)) / 2',
    square: 'x ^ 2',
    cbrt: 'sign(x) * pow(abs(x), 1 / 3)',
    hypot: 'sqrt(x * x + y * y)',
    reciprocal: '1 / x',
    trunc: 'sign(x) * floor(abs(x))',
    floor_divide: 'floor(x / y)',
    lerp: 'fma(t, y - x, x)',
    add: 'x + y',
    subtract: 'x - y',
    multiply: 'x * y',
    divide: 'x / y',
    true_divide: 'x / y',
    equal: 'x == y',
    not_equal: 'x != y',
    greater: 'x > y',
    greater_equal: 'x >= y',
    less: 'x < y',
    less_equal: 'x <= y',
    logical_and: 'x && y',
    logical_or: 'x || y',
    logical_not: '!x',
    isnan: 'x != x',
    matmul: 'sum[k](A * B)',
    dot: 'sum[k](A * B)',
    amax: 'max[n](x)',
    amin: 'min[n](x)',
  }),
)

/** Reductions. */
export const SAME_REDUCTION = renamed({
  max: 'amax maximum',
  min: 'amin minimum',
  mean: 'average avg',
  sum: 'add total',
})

/** From `{ ours: 'theirs theirs' }` to theirs → ours. */
function renamed(names: Readonly<Record<string, string>>): ReadonlyMap<string, string> {
  return new Map(Object.entries(names).flatMap(([name, others]) => others.split(' ').map((other) => [other, name])))
}
