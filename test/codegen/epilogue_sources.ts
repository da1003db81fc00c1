/** Kernels whose epilogues every tensor-core backend is tested with. */
export const list = (count: number, format: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => format(i)).join(', ')
export const lines = (count: number, format: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => format(i)).join('\n')

/** 8 tensors in, 8 tensors out, 9 scalars. */
export const chain = (
  aux: string,
  output: string,
): string => `kernel chain(A: f16[m, k], B: f16[n, k], ${list(8, (i) => `a${i}: ${aux}[m, n]`)}, ${list(9, (i) => `s${i}: f32`)}) -> (${list(8, (i) => `o${i}: ${output}[m, n]`)}) {
  o0 = sum[k](A * B) * s0 + a0 * s8
${lines(7, (i) => `  o${i + 1} = relu(o${i} * s${i + 1} + a${i + 1})`)}
}`
/** Every float output, a byte, and operands of two dtypes. */
export const FLOATS = `kernel floats(A: f16[m, k], B: f16[n, k], C: e4m3[m, n], E: i8[m, n])
  -> (D: e5m2[m, n], F: tf32[n, m], G: u8[m, n], H: f64[m, n], I: bf16[n, m], J: e4m3[n, m], P: f16[m, n], Q: f32[m, n]) {
  acc = sum[k](A * B)
  D = acc + C
  F = acc * 2
  G = u8(acc)
  H = acc + E
  I = acc
  J = acc * C
  P = acc
  Q = acc * acc
}`
export const INTEGERS = `kernel integers(A: i8[m, k], B: i8[n, k], C: i8[m, n]) -> (D: i8[m, n], F: i32[n, m], G: u8[n, m], H: f16[m, n]) {
  acc = sum[k](A * B)
  D = acc + C
  F = acc
  G = acc
  H = acc
}`
/** Accumulates in f16. */
export const HALF = `kernel half(A: f16[m, k], B: f16[n, k]) -> D: f32[m, n] {
  acc: f16 = sum[k](A * B)
  D = acc * acc
}`
/** Rows, columns and all of an accumulator, beside an elementwise output. */
export const REDUCED = `kernel reduced(A: f16[l?, m, k], B: f16[l?, n, k])
  -> (D: f16[l?, m, n], rows: f32[l?, m], columns: f32[l?, n], least: f32[l?], average: f16[m], most: i32[n]) {
  acc = sum[k](A * B)
  D = relu(acc)
  rows = max[n](abs(acc))
  columns = sum[m](D)
  least = min[m, n](acc)
  average = mean[l, n](acc)
  most = max[l, m](i32(acc))
}`
