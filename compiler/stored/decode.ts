/**
 * Values of stored forms: (data - zero) * scale * global, each step in f32. Parts that a form lacks leave the value as it is:
 * subtracting 0 and multiplying by 1 are exact.
 */
export const decodeStored = (data: number, zero = 0, scale = 1, global = 1): number =>
  Math.fround(Math.fround(Math.fround(data - zero) * scale) * global)
