/** `ktl bench --list` and `--clear`: what `--tune` has found. */
import { tuning } from '../discovery/ranking/tuning.ts'
import type { Context } from './context.ts'
import { plural } from './output.ts'

export function listTuned({ out }: Context): void {
  const file = tuning()
  const { damage, kernels } = file
  if (damage) out.diagnostics(damage.diagnostics)
  for (const kernel of kernels) {
    out.record('tuned', { ...kernel })
    out.line(`${kernel.device}: ${kernel.problem.replaceAll('\n', ' ')}`)
    out.line(`  ${kernel.kernelName}  ${kernel.microseconds.toPrecision(4)} µs ${kernel.times}, ktl ${kernel.ktl}`)
  }
  if (kernels.length === 0) out.line(`nothing is known yet (${file.path})`)
}

export function clearTuned({ out }: Context): void {
  const { path } = tuning()
  const forgotten = tuning().clear()
  out.record('cleared', { kernels: forgotten, path })
  out.line(`${plural(forgotten, 'kernel')} forgotten (${path})`)
}
