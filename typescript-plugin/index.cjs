/**
 * What TypeScript's language server loads, by `require`; the plugin is a module (runtime/tsserver). Where Node cannot load it, the
 * server works as without it, and its log says why.
 */
'use strict'

function loaded() {
  try {
    return require('../dist/typescript_plugin.js').default
  } catch (error) {
    const reason =
      error.code === 'ERR_REQUIRE_ESM'
        ? `ktl needs a Node.js that loads modules by require, 20.19 or later; this is ${process.version}`
        : error.message
    return () => ({
      create({ languageService, project }) {
        project.projectService.logger.info(`ktl/typescript-plugin is not there: ${reason}`)
        return languageService
      },
    })
  }
}

module.exports = loaded()
