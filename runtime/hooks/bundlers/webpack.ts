/** webpack.config.js: `plugins: [ktl()]` with `import ktl from 'ktl/webpack'`. */
import { unplugin } from '../unplugin.ts'

export type { KtlPluginOptions } from '../unplugin.ts'
export default unplugin.webpack
