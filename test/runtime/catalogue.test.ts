import { describe, expect, test } from 'vitest'
import { argumentErrors } from '../../grammar/catalogue/arguments.ts'
import { environment } from '../../grammar/catalogue/environment.ts'
import type { Entry } from '../../grammar/catalogue/entry.ts'
import type { LaunchRecipe } from '../../codegen/generated.ts'
import { probeAddon } from '../../runtime/addon.ts'
import { Artifact } from '../../runtime/artifact.ts'
import { openDevice } from '../../runtime/device.ts'
import { packParameters } from '../../runtime/launch.ts'
import { fromTensorLike } from '../../runtime/tensor_like.ts'
import { errorOf } from './errors.ts'

/** The codes of the device layer; those of operations are shown by the tests of discovery. */
const entries = Object.entries<Entry<any>>({ ...argumentErrors, ...environment }).filter(
  ([code, entry]) => (code < 'KTL4030' || code > 'KTL6000') && entry.wrong && entry.right,
)

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
const artifact = new Artifact(
  {
    ktl: '0',
    toolkit: '13.0.0',
    kernelName: 'k',
    targets: ['sm_100a'],
    signature: null,
    recipe,
    sourceMap: [],
    source: null,
    resources: [],
  },
  [],
)

describe.skipIf(probeAddon().addon === null)('catalogue examples (skipped without the native addon)', async () => {
  if (probeAddon().addon === null) return
  const device = await openDevice('virtual-sm100')
  const otherDevice = await openDevice('virtual-sm90')
  const module = await device.loadModule(PTX)
  const scope = {
    device, otherDevice, module, recipe, artifact, fromTensorLike, openDevice, packParameters, Artifact,
    fn: module.function('add'),
    tensor: device.empty('f32', [4]),
    address: device.malloc(64 * 128),
    ptxText: PTX,
    cubinBytes: Uint8Array.of(0x7f, 0x45, 0x4c, 0x46),
  } // prettier-ignore
  /** Statements, the last of which is the value. */
  const evaluate = async (call: string): Promise<unknown> => {
    const statements = call.split('; ')
    const body = [...statements.slice(0, -1), `return await (${statements.at(-1)})`].join('\n')
    return new Function(...Object.keys(scope), `return (async () => { ${body} })()`)(...Object.values(scope))
  }

  test.each(entries)('%s: the wrong one gives this code, the right one none', async (code, entry) => {
    const { wrong, right } = entry as { wrong: { call: string }; right: { call: string } }
    expect((await errorOf(() => evaluate(wrong.call))).code).toBe(code)
    await evaluate(right.call)
  })
})
