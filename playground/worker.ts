/** The compiler beside the page: what takes long here stops no typing. */
import { check, make } from './compile.ts'
import type { Asked } from './stages.ts'

self.addEventListener('message', ({ data }: MessageEvent<Asked>) => {
  self.postMessage(data.kind === 'check' ? check(data.text) : make(data.question))
})
