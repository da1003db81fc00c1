import { afterAll, describe, expect, test } from 'vitest'
import { operationErrors } from '../../grammar/catalogue/operations.ts'
import type { Entry } from '../../grammar/catalogue/entry.ts'
import * as ktl from '../../runtime/index.ts'
import { probeAddon } from '../../runtime/addon.ts'

/** Only a kernel of a user's needs a workspace: kernel.test.ts shows that one. */
const entries = Object.entries<Entry<any>>(operationErrors).filter(([code]) => code !== 'KTL4041')

describe.skipIf(probeAddon().addon === null)(
  'catalogue examples of operations (skipped without the native addon)',
  async () => {
    if (probeAddon().addon === null) return
    const device = await ktl.openDevice('virtual-sm100')
    const otherDevice = await ktl.openDevice('virtual-sm90')
    afterAll(async () => void (await Promise.all([device.close(), otherDevice.close()])))
    const [A, B, out] = [
      device.tensor('f16', [64, 32], 1),
      device.tensor('f16', [32, 48], 1),
      device.tensor('f32', [64, 48], 0),
    ]
    const kernels = ktl.getKernels(new ktl.GemmArguments({ A, B, out }))
    const program = ktl.loadSource({
      name: 'double.ktl',
      text: 'kernel double(X: f32[m, n]) -> Y: f32[m, n] { Y = X * 2 }',
    })
    abstract class MyKernel extends ktl.Kernel {
      static generateKernels(): never[] {
        return []
      }
    }
    const scope: Record<string, unknown> = {
      ...ktl,
      device,
      otherDevice,
      A,
      B,
      out,
      kernels,
      kernel: kernels[0],
      program,
      MyKernel,
    }
    /** Statements, the last of which is the value. */
    const evaluate = async (call: string): Promise<unknown> => {
      const statements = call.split('; ')
      const body = [...statements.slice(0, -1), `return ${statements.at(-1)}`].join('\n')
      return new Function(...Object.keys(scope), `return (async () => { ${body} })()`)(...Object.values(scope))
    }
    /** A thrown error, a Status, or an empty list: all name a code. */
    const codeOf = async (call: string): Promise<string | null> => {
      try {
        const value = (await evaluate(call)) as { ok?: boolean; code?: string; why?: string | null }
        if (value?.ok === false) return value.code!
        return value?.why ? (/KTL\d{4}/.exec(value.why)?.[0] ?? value.why) : null
      } catch (error) {
        if (error instanceof ktl.KtlError) return error.code
        throw error
      }
    }

    test.each(entries)('%s: the wrong one gives this code, the right one none', async (code, { wrong, right }) => {
      expect(await codeOf((wrong as { call: string }).call)).toBe(code)
      expect(await codeOf((right as { call: string }).call)).toBeNull()
    })
  },
)
