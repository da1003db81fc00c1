import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

const native = join(import.meta.dirname, '..', '..', 'native')

/** Path of a C++ program of native/tests (of the library of virtual_cudart: its folder is that of the path) that links the addon's virtual device; built here, as nothing but tests needs it. */
export function nativeTool(name: 'fuzz_ptx' | 'ptx_inspect' | 'virtual_cudart'): string {
  execFileSync('make', ['--silent', '-j2', '-C', join(native, 'tests'), 'SANITIZE=', name], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  return join(native, 'build', 'plain', name)
}
