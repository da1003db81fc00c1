/** The virtual device beside the page. */
import type { DeviceQuestion } from '../stages.ts'
import { loadWasm } from './addon.ts'
import { runQuestion } from './run.ts'

self.addEventListener('message', ({ data }: MessageEvent<DeviceQuestion>) => {
  void loadWasm('device.wasm')
    .then(() => runQuestion(data))
    .then((ran) => self.postMessage(ran))
    // As an error of the worker, which the page tells.
    .catch((error: unknown) => setTimeout(() => { throw error }))
}) // prettier-ignore
