/**
 * GEMMs of the SM80 lowering, recorded on the virtual SM90 for replay.cu: integers, whose sums are exact.
 *
 *   npx tsx bench/gpu/sm80_cases.ts FOLDER
 */
import { runWide } from '../../test/codegen/run_gemm.ts'
import { SM80_CASES } from '../../test/codegen/sm80_cases.ts'
import { recordLaunches } from './record.ts'

let label = ''
recordLaunches(process.argv[2]!, () => label)
for (const [name, wide] of SM80_CASES) {
  label = name
  const [result] = await runWide({ ...wide, on: 'sm_90a' }, [{ order: 'lazy' }])
  if (result!.wrong > 0 || result!.findings.length > 0) throw new Error(`${name}: ${JSON.stringify(result)}`)
}
console.log(`${SM80_CASES.length} launches`)
