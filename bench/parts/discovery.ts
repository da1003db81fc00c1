/** Finding kernels for a GEMM with an epilogue: the whole space of the target, ranked. */
import { countKernels, getKernels, openDevice } from '../../runtime/index.ts'
import { filterInFreshProcess } from '../filter.ts'
import type { FreshProcess } from '../fresh_process.ts'
import { medianTime, type Measurement } from '../measure.ts'
import { squareGemm } from '../problems.ts'

/** Measured on a machine with two cores, its DSL mocked: a lower bound. */
const REFERENCE = 'CUTLASS API: 8 s of 107,616; 0.2.0: 80-90 ms, 916 of 284,346'

export async function discoveryPart(fresh: () => FreshProcess): Promise<Measurement[]> {
  const device = await openDevice('virtual-sm100')
  const args = squareGemm(device, 'bf16', 1024, true)
  const found = getKernels(args, { cc: 100 }).length
  const counting = performance.now()
  const { instances } = countKernels({ cc: 100 })
  const countMs = performance.now() - counting
  const all = await medianTime(200, () => getKernels(args, { cc: 100 }), 50)
  const best = await medianTime(200, () => getKernels(args, { cc: 100, limit: 1 }), 50)
  // New tensors and a new epilogue object, of a shape not asked about before; the epilogue's text is the same.
  const fresher = Array.from({ length: 20 }, () => squareGemm(device, 'bf16', 128, true))
  const unseen = await medianTime(fresher.length, () => getKernels(fresher.pop()!, { cc: 100 }))
  // Other extents in every query: nothing but the designs is known from before.
  const sizes = Array.from({ length: 50 }, (_, i) => squareGemm(device, 'bf16', 64 + 8 * i, true))
  const extents = await medianTime(sizes.length, () => getKernels(sizes.pop()!, { cc: 100 }))
  await device.close()
  const filtered = filterInFreshProcess()
  const filterNote = `${filtered.found} of ${filtered.instances}`
  const note = `${found} of ${instances}`
  return [
    { part: 'discovery', what: 'getKernels(args), warm', value: all, unit: 'ms', goal: 1, note },
    { part: 'discovery', what: 'getKernels(args, { limit: 1 }), warm', value: best, unit: 'ms', goal: 1 },
    { part: 'discovery', what: 'getKernels of new arguments', value: unseen, unit: 'ms', goal: null },
    { part: 'discovery', what: 'getKernels(args), first in a process', value: fresh().getKernelsMs, unit: 'ms', goal: null }, // prettier-ignore
    { part: 'discovery', what: 'getKernels of other extents', value: extents, unit: 'ms', goal: 1, note: REFERENCE },
    { part: 'discovery', what: 'countKernels, first', value: countMs, unit: 'ms', goal: 2000 },
    {
      part: 'discovery',
      what: 'metadataFilter over all instances, first',
      value: filtered.ms,
      unit: 'ms',
      goal: 2000,
      note: filterNote,
    },
    {
      part: 'discovery',
      what: 'metadataFilter over all instances, again',
      value: filtered.againMs,
      unit: 'ms',
      goal: null,
    },
    { part: 'discovery', what: 'RSS behind both', value: filtered.rssAfter, unit: 'MiB', goal: 300 },
    { part: 'discovery', what: 'kernels found', value: found, unit: 'count', goal: null },
    {
      part: 'discovery',
      what: 'instances for sm_100a',
      value: instances,
      unit: 'count',
      goal: null,
      note: 'CUTLASS: 107,616, later 284,346',
    },
  ]
}
