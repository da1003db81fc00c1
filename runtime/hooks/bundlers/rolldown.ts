/** rolldown.config.js: `plugins: [ktl()]` with `import ktl from 'ktl/rolldown'`. */
import { unplugin } from '../unplugin.ts'

export type { KtlPluginOptions } from '../unplugin.ts'
export default unplugin.rolldown
