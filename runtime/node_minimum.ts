/** The oldest Node that ktl runs on: `engines` in package.json says the same. */
export const MINIMUM_NODE = [20, 19] as const

/** `ktl needs Node.js 20.19 or later, this is v18.20.8`; null: it is recent enough. */
export function nodeTooOld(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const recent = major > MINIMUM_NODE[0] || (major === MINIMUM_NODE[0] && minor >= MINIMUM_NODE[1])
  return recent ? null : `ktl needs Node.js ${MINIMUM_NODE.join('.')} or later, this is v${version}`
}
