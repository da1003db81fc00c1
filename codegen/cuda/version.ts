/**
 * Version of the compiler, as generated files state it; the same as package.json's.
 *
 * @example
 * console.log(KTL_VERSION.split('.').length) // 3
 */
export const KTL_VERSION = '0.1.0'
