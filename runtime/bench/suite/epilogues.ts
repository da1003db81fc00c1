/** Epilogues that problems have, by the names that both sides know (peer.py). */
import type { Fusion, Rival } from './problem.ts'

export const EPILOGUES = {
  relu: 'relu(acc)', gelu_tanh: 'gelu_tanh(acc)', gelu: 'gelu(acc)', silu: 'silu(acc)', sigmoid: 'sigmoid(acc)', tanh: 'tanh(acc)',
  softplus: 'softplus(acc)', bias: 'acc+bias', bias_relu: 'relu(acc+bias)', axpby: 'acc*alpha+C',
  relu_axpby: 'relu(acc*alpha+C)', gelu_tanh_bias: 'gelu_tanh(acc+bias)',
} as const satisfies Readonly<Record<string, string>> // prettier-ignore

export type EpilogueName = keyof typeof EPILOGUES

export function fusionOf(name: EpilogueName, rivals: readonly Rival[]): Fusion {
  const text = EPILOGUES[name]
  const operands: Fusion['operands'] = { ...(text.includes('bias') && { bias: 'n' }), ...(text.includes('C') && { C: 'mn' }) } // prettier-ignore
  return { name, text, operands, scalars: text.includes('alpha') ? { alpha: 2 } : {}, rivals }
}
