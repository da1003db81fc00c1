/** `build({ plugins: [ktl()] })` with `import ktl from 'ktl/esbuild'`. */
import { unplugin } from '../unplugin.ts'

export type { KtlPluginOptions } from '../unplugin.ts'
export default unplugin.esbuild
