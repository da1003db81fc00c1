/** `npx rollup -c [--dir OUT]` */
import { transform } from 'esbuild'
import ktl from 'ktl/rollup'

/** Rollup reads JavaScript only. */
const typescript = {
  name: 'typescript',
  transform: async (code, id) =>
    id.endsWith('.ts') ? { ...(await transform(code, { loader: 'ts' })), map: null } : null,
}

export default {
  input: `${import.meta.dirname}/main.ts`,
  output: { dir: 'dist', format: 'es' },
  external: ['ktl'],
  plugins: [ktl(), typescript],
}
