/**
 * Imported before everything else by every file of dist/ (see build.mjs): a Node that is too old gets one sentence, where it would
 * fail in the middle of something else. Browsers pass.
 */
import { nodeTooOld } from './node_minimum.ts'

const { process } = globalThis as { process?: { versions?: { node?: string } } }
const problem = process?.versions?.node === undefined ? null : nodeTooOld(process.versions.node)
if (problem !== null) {
  const error = new Error(problem)
  // Where it was imported says nothing.
  error.stack = `Error: ${problem}`
  throw error
}
