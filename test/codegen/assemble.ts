/** Generated text through nvcc to machine code, and what ptxas says of it: registers that go to memory, MMAs that it serialises. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { deviceHeaders } from '../../runtime/toolchain/device_headers.ts'
import { GENERATED } from '../native/device.ts'

export function assemble(cuda: string, arch: string): { readonly status: number | null; readonly output: string } {
  const folder = mkdtempSync(join(tmpdir(), 'ktl-assemble-'))
  try {
    writeFileSync(join(folder, 'kernel.cu'), cuda)
    writeFileSync(join(folder, 'cuda_runtime.h'), deviceHeaders(cuda))
    const flags = [`-arch=${arch}`, '-cubin', ...GENERATED, '-lineinfo', '-std=c++17', '-Xptxas', '-v,-warn-spills']
    const options = { cwd: folder, encoding: 'utf8' } as const
    const compile = () => spawnSync('nvcc', [...flags, 'kernel.cu', '-o', 'kernel.cubin'], options)
    let { status, stdout, stderr } = compile()
    if (status !== 0) {
      // As the runtime does: what the few headers do not have, NVIDIA's may.
      rmSync(join(folder, 'cuda_runtime.h'))
      ;({ status, stdout, stderr } = compile())
    }
    return { status, output: stdout + stderr }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
