/** A program in a link: what follows `#program=` is JSON, compressed by DEFLATE, in base64url. It never reaches a server. */
export interface Shared {
  readonly source: string
  readonly kernel: string
  readonly target: string
  readonly dims: string
}

const PREFIX = '#program='
const MOST_BYTES = 2 << 20
const FIELDS = ['source', 'kernel', 'target', 'dims'] as const

export async function hashOf({ source, kernel, target, dims }: Shared): Promise<string> {
  const text = new Blob([JSON.stringify({ source, kernel, target, dims })]).stream()
  const packed = await bytesOf(text.pipeThrough(new CompressionStream('deflate-raw')), Infinity)
  const base64 = btoa(Array.from(packed, (byte) => String.fromCharCode(byte)).join(''))
  return PREFIX + base64.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}

/** null: there is no program in it. Rejects for one that is broken. */
export async function sharedIn(hash: string): Promise<Shared | null> {
  if (!hash.startsWith(PREFIX)) return null
  try {
    const base64 = hash.slice(PREFIX.length).replaceAll('-', '+').replaceAll('_', '/')
    const packed = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
    const bytes = await bytesOf(new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw')), MOST_BYTES) // prettier-ignore
    const given = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as Record<string, unknown>
    if (FIELDS.some((name) => typeof given[name] !== 'string')) throw new Error('fields are missing')
    return given as unknown as Shared
  } catch (error) {
    throw new Error('this link is broken: a part of it is missing, or was changed', { cause: error })
  }
}

/** A few bytes may stand for a great many. */
async function bytesOf(stream: ReadableStream<Uint8Array>, most: number): Promise<Uint8Array> {
  const reader = stream.getReader()
  const chunks: Uint8Array<ArrayBuffer>[] = []
  let bytes = 0
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    if ((bytes += part.value.length) > most) throw new Error('more than a program may have')
    chunks.push(part.value as Uint8Array<ArrayBuffer>)
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer())
}
