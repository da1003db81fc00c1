/** `npx vite build [--outDir OUT]`: a program for Node; `npx vite-node` and vitest take the same configuration. */
import ktl from 'ktl/vite'
import { defineConfig } from 'vite'

export default defineConfig({
  plugins: [ktl()],
  build: { ssr: 'main.ts', emptyOutDir: true },
  // It loads a native addon.
  ssr: { external: ['ktl'] },
})
