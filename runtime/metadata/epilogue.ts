/** The epilogue a kernel was generated with. */
import { DTYPES } from '../../compiler/dtypes.ts'
import { EpilogueArguments } from '../arguments/epilogue.ts'
import { OK, refuse, Status } from '../errors/status.ts'
import { Tensor } from '../tensors/tensor.ts'
import { checkText, complete, fieldsOf, malformed } from './check.ts'
import { TensorAttributes } from './operands.ts'
import { tensorStatus } from './supports.ts'

/** How an operand of an epilogue travels: through shared memory by TMA, or by loads and stores of the epilogue's threads. */
export type Transport = 'tma' | 'direct'

/** Fields of `EpilogueMetadata`. */
export interface EpilogueFields {
  readonly text: string
  readonly tensors: Readonly<Record<string, TensorAttributes>>
  readonly outputs: readonly string[]
  readonly scalars: readonly string[]
  readonly transports?: Readonly<Record<string, Transport>>
}

/**
 * What a kernel does with its accumulator. Kernels of users that fuse an epilogue make it from the `epilogueArguments`
 * they are generated for.
 *
 * @example
 * const metadata = new EpilogueMetadata(new EpilogueArguments('relu(acc * alpha)', { alpha: 2 }))
 * console.log(metadata.text, metadata.scalars)
 */
export class EpilogueMetadata {
  /** As the user wrote it. */
  readonly text: string
  readonly tensors: Readonly<Record<string, TensorAttributes>>
  /** Extra outputs; the others of `tensors` are inputs. */
  readonly outputs: readonly string[]
  /** Run-time numbers: they may change from call to call. */
  readonly scalars: readonly string[]
  /** Of `tensors` and of the kernel's own output, as the compiler chose them; empty for kernels that are not ktl's. */
  readonly transports: Readonly<Record<string, Transport>>

  constructor(epilogue: EpilogueFields | EpilogueArguments) {
    const fields =
      epilogue instanceof EpilogueArguments
        ? boundBy(epilogue)
        : (fieldsOf('epilogue', epilogue) as unknown as EpilogueFields)
    this.text = checkText('epilogue.text', fields.text)
    this.tensors = Object.freeze({ ...fieldsOf('epilogue.tensors', fields.tensors) }) as EpilogueFields['tensors']
    this.outputs = Object.freeze([...names('epilogue.outputs', fields.outputs)])
    this.scalars = Object.freeze([...names('epilogue.scalars', fields.scalars)])
    this.transports = Object.freeze({ ...fields.transports })
    Object.freeze(this)
  }

  /** Whether a call asks for this epilogue, with operands as it expects them. KTL4036, else KTL4031 to KTL4033. */
  supports(epilogue: EpilogueArguments | null): Status {
    if (epilogue?.text !== this.text)
      return refuse('KTL4036', {
        expected: `the epilogue \`${this.text}\``,
        got: epilogue ? `\`${epilogue.text}\`` : 'none',
      })
    const bound = Object.entries(epilogue.bindings).filter(
      (entry): entry is [string, Tensor] => entry[1] instanceof Tensor,
    )
    const fits = bound.map(([name, tensor]) =>
      this.tensors[name] ? tensorStatus(name, this.tensors[name], tensor) : OK,
    )
    return Status.first(...fits)
  }

  /** Its fields as plain data. */
  toJSON(): object {
    return { ...this }
  }

  /** From the data of `toJSON`. KTL4175 for anything else. */
  static fromJSON(json: unknown): EpilogueMetadata {
    const fields = fieldsOf('epilogue', json) as unknown as EpilogueFields
    const tensors = Object.entries(fieldsOf('epilogue.tensors', fields.tensors))
    const read = tensors.map(([name, own]) => [name, TensorAttributes.fromJSON(own)] as const)
    const { outputs = [], scalars = [] } = fields
    return complete(
      'epilogue',
      new EpilogueMetadata({ ...fields, outputs, scalars, tensors: Object.fromEntries(read) }),
    )
  }
}

function boundBy({ text, bindings, signature }: EpilogueArguments): EpilogueFields {
  const tensors: Record<string, TensorAttributes> = {}
  for (const [name, value] of Object.entries(bindings)) if (value instanceof Tensor) tensors[name] = attributesOf(value)
  return {
    text,
    tensors,
    outputs: signature.outputs.map(({ name }) => name),
    scalars: signature.inputs.map(({ name }) => name).filter((name) => tensors[name] === undefined),
  }
}

/** What the tensor itself promises: order, and the largest power of two up to 16 bytes that divides strides and pointer. */
function attributesOf({ dtype, strides, shape, pointer }: Tensor): TensorAttributes {
  const inner = strides.lastIndexOf(1)
  const { bits } = DTYPES[dtype]
  let divisibility = Math.max(1, 128 / bits)
  const fits = (): boolean =>
    strides.every((stride, i) => i === inner || shape[i]! <= 1 || stride % divisibility === 0) &&
    pointer % BigInt(Math.ceil((divisibility * bits) / 8)) === 0n
  while (divisibility > 1 && !fits()) divisibility = Math.floor(divisibility / 2)
  return new TensorAttributes(
    dtype,
    strides.map((_, i) => (i === inner ? 1 : 0)),
    divisibility,
  )
}

function names(what: string, given: unknown): readonly string[] {
  if (Array.isArray(given) && given.every((name) => typeof name === 'string')) return given
  throw malformed(what, 'a list of names', given)
}
