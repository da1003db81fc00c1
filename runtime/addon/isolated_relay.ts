/**
 * A worker thread between the user of an isolated device and its process: it keeps the time while the user's thread waits, and knows how
 * the process ended.
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { workerData } from 'node:worker_threads'
import type { Answer, Call, Close, End, Notice, RelayData } from './isolated_messages.ts'

const { port, server, addon, device, limits, answers } = workerData as RelayData

/** The kernel refuses memory beyond the limit: nothing can outrun it. */
const LIMITED = 'ulimit -d "$0" && exec "$@"'
const kilobytes = String(Math.ceil(limits.memoryBytes / 1024))
const command = [process.execPath, server, addon, JSON.stringify(device)]
const { LD_LIBRARY_PATH } = process.env
const child = spawn('/bin/sh', ['-c', LIMITED, kilobytes, ...command], {
  cwd: '/',
  // Nothing of this process's secrets.
  env: LD_LIBRARY_PATH === undefined ? {} : { LD_LIBRARY_PATH },
  stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  serialization: 'advanced',
})

interface Pending {
  readonly timer: NodeJS.Timeout
  /** Of its arguments. */
  readonly bytes: number
  readonly cancel: Int32Array | undefined
}

const pending = new Map<number, Pending>()
let ended: End | null = null
let closing = false
let timedOut = false
let output = ''

function answer(message: Answer): void {
  port.postMessage(message)
  Atomics.add(answers, 0, 1)
  Atomics.notify(answers, 0)
}

function settle(id: number): void {
  const { timer, cancel } = pending.get(id) ?? {}
  clearTimeout(timer)
  pending.delete(id)
  if (cancel) Atomics.notify(cancel, 0)
}

function kill(): void {
  timedOut = true
  child.kill('SIGKILL')
}

/** What the limit counts, as last seen; 0 where /proc does not say. */
let held = 0
const LOOK_MS = 20
/** Arguments that may be too much before the next look. */
const LARGE_BYTES = 2 ** 20

function look(): void {
  if (pending.size === 0) return
  try {
    const kilobytes = /^VmData:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'latin1'))?.[1]
    if (kilobytes !== undefined) held = Number(kilobytes) * 1024
  } catch {
    // It has ended, or there is no /proc.
  }
}
const looking = setInterval(look, LOOK_MS).unref()

const bytesOf = (value: unknown): number =>
  typeof value === 'string' ? value.length : ArrayBuffer.isView(value) ? value.byteLength : 0

/** Not every library that gets no memory says so before it ends. What is on its way is held twice: as a message, and as what it says. */
const isNearItsEnd = (): boolean => {
  const onTheWay = [...pending.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  return held > 0 && held + 2 * onTheWay >= 0.9 * limits.memoryBytes
}

const OUT_OF_MEMORY = /bad_alloc|memory|allocation failed/i

function endOf(status: number | null, signal: string | null): End {
  const lines = output.trim()
  if (timedOut) {
    const how = `a call took longer than the ${limits.timeoutMs} ms of \`isolate.timeoutMs\``
    return { how, output: '', help: 'give it more time, or a smaller `warpInstructionBudget`' }
  }
  if (OUT_OF_MEMORY.test(lines) || (signal !== null && !closing && isNearItsEnd())) {
    const how = `it wanted more than the ${limits.memoryBytes} bytes of \`isolate.memoryBytes\``
    return { how, output: '', help: 'give it more memory, or run smaller work' }
  }
  const how = signal === null ? `it exited with status ${status}` : `it was ended by ${signal}`
  return { how, output: lines, help: 'open another device; what it did is nothing to rely on' }
}

function end(reason: End): void {
  if (ended) return
  ended = reason
  clearInterval(looking)
  answer({ id: null, pid: null })
  for (const id of [...pending.keys()]) {
    settle(id)
    answer({ id, ended })
  }
}

child.stderr!.setEncoding('utf8').on('data', (text: string) => (output = (output + text).slice(-4096)))
child.on('error', (error) => end({ how: error.message, output: '', help: 'isolation needs /bin/sh, and processes' }))
child.on('close', (status, signal) => {
  end(endOf(status, signal))
  if (closing) port.close()
})
child.on('message', (message: Answer) => {
  if (message.id !== null && !('callback' in message)) settle(message.id)
  answer(message)
})
if (child.pid !== undefined) answer({ id: null, pid: child.pid })

/** What is sent to a process that has just ended is answered when its end is known. */
const send = (message: Call | Notice): void => void (child.connected && child.send(message, () => {}))

function close(): void {
  closing = true
  // Where it has ended already, nothing else keeps this thread.
  if (ended) port.close()
  else child.kill('SIGKILL')
}

port.on('message', (message: Call | Notice | Close) => {
  if ('close' in message) return close()
  if (!('id' in message)) return send(message)
  const { cancel, ...call } = message
  if (ended) return answer({ id: call.id, ended })
  const bytes = call.args.reduce<number>((sum, value) => sum + bytesOf(value), 0)
  pending.set(call.id, { timer: setTimeout(kill, limits.timeoutMs), bytes, cancel })
  if (bytes >= LARGE_BYTES) look()
  send(call)
  if (cancel) void forwardCancel(call.id, cancel)
})

async function forwardCancel(id: number, cancel: Int32Array): Promise<void> {
  // The types of ES2023 have no waitAsync, which Node.js 20 has.
  type WaitAsync = (array: Int32Array, index: number, value: number) => { readonly value: Promise<string> | string }
  const { waitAsync } = Atomics as unknown as { readonly waitAsync: WaitAsync }
  await waitAsync(cancel, 0, 0).value
  if (Atomics.load(cancel, 0) !== 0 && pending.has(id)) send({ cancelled: id })
}
