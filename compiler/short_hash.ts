/**
 * 48 bits of two FNV-like streams, mixed: enough to tell the epilogues of a program apart. Names of kernels and the files of
 * users carry it, so it stays as it is.
 */
export function shortHash(text: string): string {
  let a = 0x811c9dc5
  let b = 0x9e3779b9
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    a = Math.imul(a ^ unit, 0x01000193)
    b = Math.imul(b ^ unit, 0x85ebca6b)
    b = (b << 13) | (b >>> 19)
  }
  const mix = (h: number): number => {
    h = Math.imul(h ^ (h >>> 16), 0x7feb352d)
    h = Math.imul(h ^ (h >>> 15), 0x846ca68b)
    return (h ^ (h >>> 16)) >>> 0
  }
  const hex = (h: number): string => mix(h).toString(16).padStart(8, '0')
  return (hex(a) + hex(b)).slice(0, 12)
}
