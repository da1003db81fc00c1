import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

const native = join(import.meta.dirname, '..', '..', 'native')

/** Path of a C++ program of native/tests that links the addon's virtual device; built here, as nothing but tests needs it. */
export function nativeTool(name: 'fuzz_ptx' | 'ptx_inspect'): string {
  execFileSync('make', ['--silent', '-j2', '-C', join(native, 'tests'), 'SANITIZE=', name], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  return join(native, 'build', 'plain', name)
}
