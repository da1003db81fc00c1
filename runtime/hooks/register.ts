/**
 * `node --import ktl/register app.js`: from then on `import kernels from './mlp.ktl'` gives the kernels of the file, by
 * default and by name. Works beside tsx: `node --import tsx --import ktl/register app.ts`.
 */
import { register } from 'node:module'

register('./node_loader.js', import.meta.url)
