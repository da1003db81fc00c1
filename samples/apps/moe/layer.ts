/** A layer of a mixture of experts, as launches worked out beforehand: route, up, down, combine. layer.ktl has the kernels. */
import {
  getKernels,
  KernelArguments,
  prepareOffsets,
  ScaledOperand,
  type Device,
  type KtlKernel,
  type PreparedLaunch,
  type PreparedOffsets,
  type KernelReference,
  type Stream,
  type Tensor,
} from 'ktl'

/** S tokens of K numbers; each chooses J of G experts, which have F hidden numbers. */
export interface MoeOperands {
  /** bf16[S, K], or e4m3 with a scale for 1 x 128. */
  readonly X: Tensor | ScaledOperand
  /** i32[S, J]: which experts; one below 0 or from G on is none. */
  readonly experts: Tensor
  /** f32[S, J]: of each choice. */
  readonly weights: Tensor
  /** bf16[G, K, F], or e4m3[G, F, K] with a scale for 128 x 128; the same for `up`. */
  readonly gate: Tensor | ScaledOperand
  readonly up: Tensor | ScaledOperand
  /** bf16[G, F, K], or e4m3[G, K, F] with a scale for 128 x 128. */
  readonly down: Tensor | ScaledOperand
  /** bf16[S, K] */
  readonly Y: Tensor
}

export type MoeKernels = Readonly<Record<'inverse' | 'up' | 'down' | 'combine' | 'up8' | 'down8', KernelReference>>

/** Every launch reads what its tensors hold then: tokens, choices and weights may change, shapes not. */
export class MoeLayer {
  readonly #sort: PreparedOffsets
  readonly #launches: readonly PreparedLaunch[]
  readonly #scratch: readonly Tensor[]

  private constructor(sort: PreparedOffsets, launches: readonly PreparedLaunch[], scratch: readonly Tensor[]) {
    this.#sort = sort
    this.#launches = launches
    this.#scratch = scratch
  }

  /** `kernels`: those of layer.ktl. */
  static async prepare(
    kernels: MoeKernels,
    { X, experts, weights, gate, up, down, Y }: MoeOperands,
  ): Promise<MoeLayer> {
    const { device } = experts
    const [S, J] = experts.shape as [number, number]
    const [rows, K] = [S * J, X.shape[1]!]
    const isFp8 = X instanceof ScaledOperand
    const [G, F] = [gate.shape[0]!, gate.shape[isFp8 ? 1 : 2]!]
    const sort = await prepareOffsets(experts.view([rows]), G)
    const scratch: Tensor[] = []
    const make = (...args: Parameters<Device['empty']>): Tensor => {
      const tensor = device.empty(...args)
      scratch.push(tensor)
      return tensor
    }
    const place = device.tensor('i32', [S, J], -1)
    scratch.push(place)
    const D = make('bf16', [rows, K])
    const H = isFp8
      ? new ScaledOperand(make('e4m3', [rows, F]), make('f32', [rows, F / 128]), { mode: [1, 128] })
      : make('bf16', [rows, F])
    const { rows: row, offsets: ends } = sort
    const calls = [
      new KernelArguments(kernels.inverse, { row, place: place.view([rows]) }),
      new KernelArguments(isFp8 ? kernels.up8 : kernels.up, { X, row, gate, up, ends, choices: J, H }),
      new KernelArguments(isFp8 ? kernels.down8 : kernels.down, {
        H,
        W: down,
        row,
        weight: weights.view([rows]),
        ends,
        D,
      }),
      new KernelArguments(kernels.combine, { D, place, row, Y }),
    ]
    const launches: PreparedLaunch[] = []
    for (const args of calls) {
      const kernel = getKernels(args, { providers: ['ktl'], limit: 1 })[0] as KtlKernel
      launches.push(kernel.prepare(args, await kernel.compile(args)))
    }
    return new MoeLayer(sort, launches, scratch)
  }

  /** Enqueues the layer; within `device.capture` it becomes part of the graph. */
  launch(stream?: Stream): void {
    this.#sort.launch(stream)
    for (const launch of this.#launches) launch.launch(stream)
  }

  free(): void {
    this.#sort.free()
    for (const tensor of this.#scratch) tensor.free()
  }
}
