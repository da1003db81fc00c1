/** What the calls of examples see besides the exports of `ktl`. */
import { createHash } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import type { LaunchRecipe } from '../../codegen/cuda/generated.ts'
import type * as Runtime from '../../runtime/index.ts'
import { IR_VERSION } from '../../runtime/artifacts/artifact.ts'
import { packParameters } from '../../runtime/kernels/plan_launch.ts'

export type Ktl = typeof Runtime

const PTX = `.version 9.0
.target sm_100a
.address_size 64
.visible .entry add(.param .f32 x) { ret; }
`

const recipe: LaunchRecipe = {
  entry: 'add',
  threads: 32,
  cluster: [1, 1, 1],
  sharedMemBytes: 0,
  grid: { kind: 'elements', outputs: ['D'], perCta: 32, limit: 1 },
  params: [{ kind: 'pointer', operand: 'D', storage: 'float', isConst: false }],
}

/** A scope, and its devices to close. */
export async function createScope(ktl: Ktl) {
  // Kernels that are shown as right are right under every check.
  const device = await ktl.openDevice('virtual-sm100', { checks: 'full' })
  const otherDevice = await ktl.openDevice('virtual-sm90')
  const module = await device.loadModule(PTX)
  const [A, B, out] = [
    device.tensor('f16', [64, 32], 1),
    device.tensor('f16', [32, 48], 1),
    device.tensor('f32', [64, 48], 0),
  ]
  const kernels = ktl.getKernels(new ktl.GemmArguments({ A, B, out }))
  const artifact = new ktl.Artifact(
    { ktl: '0', toolkit: '13.0.0', kernelName: 'k', targets: ['sm_100a'], signature: null, recipe, sourceMap: [], source: null, resources: [] },
    [],
  ) // prettier-ignore
  const program = ktl.loadSource({
    name: 'double.ktl',
    text: 'kernel double(X: f32[m, n]) -> Y: f32[m, n] { Y = X * 2 }',
  })

  /** Asks for 64 bytes of workspace and does nothing. */
  class MyKernel extends ktl.Kernel<Runtime.GemmArguments, null> {
    supportsArguments() {
      return ktl.OK
    }
    async compile() {
      return null
    }
    launch() {}
    getWorkspaceSize() {
      return 64
    }
    static generateKernels(): MyKernel[] {
      return []
    }
  }

  const scope: Readonly<Record<string, unknown>> = {
    ...ktl, device, otherDevice, module, recipe, artifact, packParameters, A, B, out, kernels, program, MyKernel,
    kernel: kernels[0],
    myKernel: new MyKernel(kernels[0]!.metadata),
    fn: module.function('add'),
    tensor: out,
    address: device.malloc(64 * 128),
    ptxText: PTX,
    cubinBytes: Uint8Array.of(0x7f, 0x45, 0x4c, 0x46),
    /** A folder with a manifest that a version of ktl wrote, and none of the kernels that it lists. */
    folderOfVersion: (version: string, ...names: string[]) => folderOf(version, names),
    /** The artifact's bytes as a version of ktl with another header would have written them. */
    serializedWith: (header: object) => withHeader(artifact.serialize(), header),
  } // prettier-ignore
  return { scope, device, close: () => Promise.all([device.close(), otherDevice.close()]) }
}

function folderOf(version: string, names: readonly string[]): string {
  const folder = mkdtempSync('artifacts-')
  const artifacts = names.map((kernelName) => ({
    kernelName, target: 'sm_100a', formats: ['ptx'], toolkit: '13.0.88', file: `sm_100a/${kernelName}.ktlbin`, bytes: 1, sha256: '0'.repeat(64),
  })) // prettier-ignore
  writeFileSync(
    `${folder}/manifest.json`,
    JSON.stringify({ format: 1, ktl: version, ir: IR_VERSION, sources: [], artifacts }),
  )
  return folder
}

/** Magic, length of the header, its sha256, the header, sections. */
function withHeader(file: Uint8Array, change: object): Uint8Array {
  const bytes = Buffer.from(file)
  const length = bytes.readUInt32LE(8)
  const header = { ...JSON.parse(bytes.toString('utf8', 44, 44 + length)), ...change }
  const changed = Buffer.from(JSON.stringify(header))
  const prefix = Buffer.from(bytes.subarray(0, 12))
  prefix.writeUInt32LE(changed.length, 8)
  const digest = createHash('sha256').update(changed).digest()
  return new Uint8Array(Buffer.concat([prefix, digest, changed, bytes.subarray(44 + length)]))
}
