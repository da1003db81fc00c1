/** rspack.config.js: `plugins: [ktl()]` with `import ktl from 'ktl/rspack'`. */
import { unplugin } from '../unplugin.ts'

export type { KtlPluginOptions } from '../unplugin.ts'
export default unplugin.rspack
