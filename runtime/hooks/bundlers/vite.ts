/** vite.config.ts: `plugins: [ktl()]` with `import ktl from 'ktl/vite'`. */
import { unplugin } from '../unplugin.ts'

export type { KtlPluginOptions } from '../unplugin.ts'
export default unplugin.vite
