/** What the runtime asks of `process`, in a page: results are kept, in order, until they are taken. */
let printed = ''

const sink = { write: (text: string): boolean => ((printed += text), true) }

export const process = { env: {}, platform: 'browser', arch: 'wasm32', version: '', stdout: sink, stderr: sink }
/** No memory is shared with other threads here. */
export const SharedArrayBuffer = ArrayBuffer

export function takePrinted(): string {
  const text = printed
  printed = ''
  return text
}
