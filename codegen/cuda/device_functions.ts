/** The device functions generated code may call, printed on demand: each once, after those it calls. */
import { CONVERSIONS } from './device/convert.ts'
import { FRAGMENTS } from './device/fragments.ts'
import { MATH_F32 } from './device/math_f32.ts'
import { MATH_F64 } from './device/math_f64.ts'
import { TRIGONOMETRY_F32 } from './device/trigonometry_f32.ts'
import { MATH_SHORT } from './device/math_short.ts'
import { INTEGER_AND_ORDER } from './device/order.ts'
import { portableConversions } from './device/portable.ts'
import { PARTS } from './device/parts.ts'
import { ROWS } from './device/rows.ts'
import { VECTORS } from './device/vectors.ts'
import { PACKED, POSITIONS, TEAMS } from './device/ragged.ts'

interface DeviceFunction {
  readonly name: string
  readonly text: string
  /** Functions and types that it names. */
  readonly calls: readonly string[]
}

/** Types that have no function beside them go by their own names. */
function parse(text: string): DeviceFunction {
  const code = text.replaceAll(/\/\/.*/g, '')
  const [name] = (code.match(/\bktl_\w+(?=\()/) ?? code.match(/\bktl_\w+/))!
  return { name, text, calls: [...new Set(code.match(/\bktl_\w+/g))].filter((other) => other !== name) }
}

const FUNCTIONS: ReadonlyMap<string, DeviceFunction> = new Map(
  [
    ...MATH_F32,
    ...TRIGONOMETRY_F32,
    ...MATH_SHORT,
    ...MATH_F64,
    ...INTEGER_AND_ORDER,
    ...CONVERSIONS,
    ...POSITIONS,
    ...TEAMS,
    ...PACKED,
    ...FRAGMENTS,
    ...ROWS,
    ...VECTORS,
    ...PARTS,
  ].map((text) => [parse(text).name, parse(text)]),
)

export const DEVICE_FUNCTION_NAMES: readonly string[] = [...FUNCTIONS.keys()]

/**
 * Texts of the named functions and of everything they call, callees first. Names of CUDA built-ins are ignored. `cc`: the compute
 * capability, where conversions that its cvt lacks are needed too.
 */
export function printDeviceFunctions(names: Iterable<string>, cc = Infinity): string[] {
  const portable = portableConversions(cc)
  const printed = new Set<string>()
  const texts: string[] = []
  const print = (name: string) => {
    const text = portable.get(name)
    const fn = text ? parse(text) : FUNCTIONS.get(name)
    if (!fn || printed.has(name)) return
    printed.add(name)
    fn.calls.forEach(print)
    texts.push(fn.text)
  }
  for (const name of names) print(name)
  return texts
}
