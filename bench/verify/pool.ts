/** Parts of the kernels' mutants in processes of their own, several at a time. */
import { fork } from 'node:child_process'
import type { Noticed } from './device.ts'
import type { Slice } from './work.ts'

export interface Task extends Slice {
  readonly kernel: string
}

/** What a process says to the one that has started it. */
export interface Message {
  readonly code: string
  readonly noticed: Noticed
}

interface PoolOptions {
  readonly jobs: number
  readonly deadline: number
  /** This file again, with a task as its `--task`. */
  readonly args: readonly string[]
  readonly onMessage: (kernel: string, message: Message) => void
  readonly onFailure: (task: Task) => void
}

/** Begins nothing behind the deadline. */
export async function runTasks(tasks: readonly Task[], { jobs, deadline, args, onMessage, onFailure }: PoolOptions): Promise<void> {
  const waiting = [...tasks]
  const worker = async (): Promise<void> => {
    for (let task = waiting.shift(); task && Date.now() < deadline; task = waiting.shift()) {
      const { kernel } = task
      const child = fork(process.argv[1]!, [...args, '--deadline', `${deadline}`, '--task', JSON.stringify(task)])
      child.on('message', (message: Message) => onMessage(kernel, message))
      const status = await new Promise((resolve) => child.on('exit', resolve))
      if (status !== 0) onFailure(task)
    }
  }
  await Promise.all(Array.from({ length: jobs }, worker))
} // prettier-ignore
