/** A bar on a terminal; elsewhere a line now and then. */
import { SingleBar } from 'cli-progress'

export interface Progress {
  update(done: number, failed: number): void
  /** Prints a line beside the bar. */
  note(text: string): void
  stop(): void
}

const LINE_EVERY_MS = 30_000

export function progress(label: string, total: number): Progress {
  if (!process.stderr.isTTY) return lines(label, total)
  const format = `${label} [{bar}] {value} of {total}, {failed} failed, {eta_formatted} left`
  const bar = new SingleBar({ format, stream: process.stderr, clearOnComplete: true, hideCursor: true, barsize: 30 })
  let state = { done: 0, failed: 0 }
  const start = (): void => bar.start(total, state.done, { failed: state.failed })
  start()
  return {
    update: (done, failed) => {
      state = { done, failed }
      bar.update(done, { failed })
    },
    note: (text) => {
      bar.stop()
      console.log(text)
      start()
    },
    stop: () => bar.stop(),
  }
}

function lines(label: string, total: number): Progress {
  let last = performance.now()
  return {
    update: (done, failed) => {
      if (performance.now() - last < LINE_EVERY_MS) return
      last = performance.now()
      console.error(`${label}: ${done} of ${total}, ${failed} failed`)
    },
    note: (text) => console.log(text),
    stop: () => {},
  }
}
