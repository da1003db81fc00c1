/** A thread for what takes longer than an edit may. */
import { parentPort } from 'node:worker_threads'
import type { Source } from '../../grammar/diagnostics.ts'
import { checkSource } from '../programs/check_source.ts'
import { kernelFacts, type TargetFacts } from './facts.ts'

export interface FactsRequest {
  readonly id: number
  readonly source: Source
  readonly kernel: string
}

export interface FactsAnswer {
  readonly id: number
  /** null: there is no such kernel, or something is wrong with it. */
  readonly facts: readonly TargetFacts[] | null
}

parentPort?.on('message', ({ id, source, kernel }: FactsRequest) => {
  const family = checkSource(source).program.kernels.find(({ name }) => name === kernel)
  const answer: FactsAnswer = { id, facts: family ? kernelFacts(family) : null }
  parentPort!.postMessage(answer)
})
