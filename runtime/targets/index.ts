/** What the runtime knows of each backend, a line each. */
import { Registry } from '../../compiler/registry.ts'
import type { Backend, FieldValues, Plans } from '../../compiler/targets/index.ts'
import { simt } from './simt.ts'
import { sm80 } from './sm80.ts'
import { sm90 } from './sm90.ts'
import { sm100 } from './sm100.ts'
import type { RuntimeTarget } from './target.ts'

const OWN = { sm100, sm90, sm80, simt } satisfies { readonly [B in Backend]: RuntimeTarget<Plans[B], FieldValues[B]> }

export const RUNTIME_TARGETS = new Registry<Backend, RuntimeTarget>(OWN)
