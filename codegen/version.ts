/** Version of the compiler, as generated files state it; the same as package.json's. */
export const KTL_VERSION = '0.1.0'
