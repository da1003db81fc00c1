/** `node build.js [OUT]`: one file, with ktl itself left outside because it loads a native addon. */
import { build } from 'esbuild'
import ktl from 'ktl/esbuild'

await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: ['main.ts'],
  outfile: `${process.argv[2] ?? 'dist'}/main.js`,
  bundle: true,
  format: 'esm',
  platform: 'node',
  external: ['ktl'],
  plugins: [ktl()],
})
