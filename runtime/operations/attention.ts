import { ClassArguments } from '../arguments/kernel.ts'
import type { EpilogueArguments } from '../arguments/epilogue.ts'
import { resolveParts, type FormOperand } from '../arguments/operands.ts'
import type { PerformanceControls } from '../arguments/performance.ts'
import type { Device } from '../devices/device.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { optionsOf, textOf } from '../errors/given.ts'
import { formatShape } from '../tensors/layout.ts'
import { Tensor } from '../tensors/tensor.ts'
import { familyOf, typeText } from './template.ts'

/**
 * An expression of the language about one score: `s` is the score after the scale, `b`, `h`, `m`, `n` are its place, `size(n)` and the
 * like their extents; names of `bindings` are numbers and tensors. A tensor with brackets is read there, one without is aligned at
 * the right with [b, h, m, n].
 */
export interface ScoreText {
  readonly text: string
  readonly bindings?: Readonly<Record<string, number | Tensor>>
}

/** Operands and options of `AttentionArguments`. */
export interface AttentionFields {
  /** [B, H, M, D] */
  readonly Q: FormOperand
  /** [B, HK, N, D]; H is a multiple of HK. */
  readonly K: FormOperand
  /** [B, HK, N, E] */
  readonly V: FormOperand
  /** [B, H, M, E] */
  readonly out: FormOperand
  /** f32[B, H, M]: logarithms of the sums of exponentials. */
  readonly lse?: Tensor | null
  /** Default: 1 / sqrt(D). */
  readonly scale?: number | Tensor
  /** Which corner the diagonal ends in. */
  readonly causal?: 'bottom-right' | 'top-left' | null
  /** What becomes of the score: `cap * tanh(s / cap)`. */
  readonly score?: ScoreText | null
  /** Where scores count; beside `causal`. */
  readonly mask?: ScoreText | null
  readonly epilogue?: EpilogueArguments | null
  readonly performance?: PerformanceControls | null
  /** Where arrays in host memory are copied to; needed when no operand is a tensor of a device. */
  readonly device?: Device
}

const CAUSAL = { 'bottom-right': 'n <= m + size(n) - size(m)', 'top-left': 'n <= m' } as const
const AXES = ['b', 'h', 'm', 'n'] as const
/** Names of the kernel itself. */
const OWN = ['Q', 'K', 'V', 'out', 'lse', 'scale', 's', 'scored', 'masked', 'b', 'h', 'hk', 'm', 'n', 'd', 'e', 'acc']

/**
 * out = epilogue(softmax over n of the scores, times V). Rows without a score that counts are 0, and their `lse` is -inf. Throws KTL4020
 * for extents that do not fit, KTL4015 and KTL4024 for options, errors of the texts, and what `KernelArguments` throw.
 *
 * @example
 * const [Q, K, V] = [1, 2, 3].map((x) => device.tensor('bf16', [1, 2, 4, 16], x / 4))
 * const out = device.empty('bf16', [1, 2, 4, 16])
 * const score = { text: 'cap * tanh(s / cap)', bindings: { cap: 30 } }
 * const args = new AttentionArguments({ Q: Q!, K: K!, V: V!, out, causal: 'bottom-right', score })
 * await getKernels(args)[0]!.run(args)
 * console.log((await out.toArray())[0]) // 0.75
 */
export class AttentionArguments extends ClassArguments {
  readonly scale: number | Tensor
  readonly causal: 'bottom-right' | 'top-left' | null

  constructor(fields: AttentionFields) {
    const {
      epilogue = null,
      lse = null,
      causal = null,
      score = null,
      mask = null,
      performance,
      device,
    } = optionsOf('fields', fields ?? (null as never))
    if (causal !== null && !Object.hasOwn(CAUSAL, causal))
      throw ktlError('KTL4015', { what: 'causal', expected: Object.keys(CAUSAL).join(' or '), got: describe(causal) })
    const given = { Q: fields.Q, K: fields.K, V: fields.V, out: fields.out, ...(lse !== null && { lse }) }
    const operands = resolveParts(given, ['out', 'lse'], device)
    const { Q, K, V, out } = operands as Record<'Q' | 'K' | 'V' | 'out', Tensor>
    for (const [name, { shape }] of Object.entries({ Q, K, V, out }))
      if (shape.length !== 4)
        throw ktlError('KTL4020', { operand: name, expected: 'of rank 4', got: formatShape(shape) })
    const [heads, shared] = [Q.shape[1]!, K.shape[1]!]
    if (shared === 0 ? heads !== 0 : heads % shared !== 0)
      throw ktlError('KTL4020', {
        operand: 'K',
        expected: `with heads that divide those of Q (${heads})`,
        got: String(shared),
      })
    const scale = fields.scale ?? Q.shape[3]! ** -0.5
    const texts = [score, mask].map((text, i) => (text === null ? null : readText(['score', 'mask'][i]!, text)))
    const bindings = mergeBindings(texts)
    const extents: Record<string, number> = { b: Q.shape[0]!, h: heads, m: Q.shape[2]!, n: K.shape[2]! }
    const [scored, masked] = texts.map((text) => text && alignTensors(text, bindings, extents))
    const conditions = [...(causal === null ? [] : [CAUSAL[causal]]), ...(masked ? [`(${masked})`] : [])]
    const [hk, at] =
      heads === shared
        ? ['h', (x: string) => x]
        : ['hk', (x: string, axis: string) => `${x}[b, h / (size(h) / size(hk)), n, ${axis}]`]
    const declared = Object.entries(bindings).map(([name, value]) =>
      typeof value === 'number'
        ? `${name}: f32`
        : `${name}: ${typeText(
            value,
            value.shape.map((_, i) => `${name}_${i}`),
          )}`,
    )
    const text = `kernel attention(
  Q: ${typeText(Q, ['b', 'h', 'm', 'd'])}, K: ${typeText(K, ['b', hk, 'n', 'd'])}, V: ${typeText(V, ['b', hk, 'n', 'e'])},
  ${['scale: f32', ...declared].join(', ')}
) -> (out: ${typeText(out, ['b', 'h', 'm', 'e'])}${lse === null ? '' : `, lse: ${typeText(operands['lse']!, ['b', 'h', 'm'])}`}) {
  s = sum[d](Q * ${at('K', 'd')}) * scale
  scored = ${scored ? `(${scored})` : 's'}
  masked = ${conditions.length > 0 ? `select(${conditions.join(' && ')}, scored, -inf)` : 'scored'}
  acc = sum[n](softmax[n](masked) * ${at('V', 'e')})
  out = epilogue(acc)
${lse === null ? '' : '  lse = logsumexp[n](masked)\n'}}
`
    super(
      familyOf('attention', text),
      { ...operands, scale, ...bindings, epilogue },
      { performance: performance ?? null },
    )
    this.scale = scale
    this.causal = causal
    if (new.target === AttentionArguments) Object.freeze(this)
  }
}

function readText(what: string, { text, bindings = {} }: ScoreText): Required<ScoreText> {
  textOf(what, text, 'an expression')
  optionsOf(`${what}.bindings`, bindings)
  for (const [name, value] of Object.entries(bindings)) {
    if (typeof value !== 'number' && !(value instanceof Tensor))
      throw ktlError('KTL4024', { operand: name, expected: 'a number or a tensor', got: describe(value) })
    if (OWN.includes(name))
      throw ktlError('KTL4015', {
        what: `a name in ${what}.bindings`,
        expected: `other than ${OWN.join(', ')}`,
        got: name,
      })
  }
  return { text, bindings }
}

/** Both texts may name the same. */
function mergeBindings(texts: readonly (Required<ScoreText> | null)[]): Record<string, number | Tensor> {
  const merged: Record<string, number | Tensor> = {}
  for (const [name, value] of texts.flatMap((text) => Object.entries(text?.bindings ?? {}))) {
    if (Object.hasOwn(merged, name) && merged[name] !== value)
      throw ktlError('KTL4015', { what: `${name} of score and mask`, expected: 'the same in both', got: 'two values' })
    merged[name] = value
  }
  return merged
}

/** Tensors without brackets get them: their axes are the last ones of [b, h, m, n], those of extent 1 broadcast. */
function alignTensors(
  { text }: ScoreText,
  bindings: Readonly<Record<string, number | Tensor>>,
  extents: Readonly<Record<string, number>>,
): string {
  return text.replaceAll(/([A-Za-z_]\w*)(\s*\[)?/g, (all, name: string, bracket?: string) => {
    const value = Object.hasOwn(bindings, name) ? bindings[name] : undefined
    if (bracket !== undefined || !(value instanceof Tensor) || value.rank === 0) return all
    if (value.rank > 4)
      throw ktlError('KTL4020', { operand: name, expected: 'of rank 4 at most', got: formatShape(value.shape) })
    const axes = AXES.slice(4 - value.rank)
    return `${name}[${axes.map((axis, i) => (value.shape[i] === 1 && extents[axis] !== 1 ? '0' : axis)).join(', ')}]`
  })
}
