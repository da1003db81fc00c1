/**
 * `node --import ktl/register app.js`: from then on `import kernels from './mlp.ktl'` gives the kernels of the file, by
 * default and by name. Works beside tsx: `node --import tsx --import ktl/register app.ts`.
 */
// Not by name: older versions of Node lack it, and would say so before they say that they are too old.
import module from 'node:module'

module.register('./node_loader.js', import.meta.url)
