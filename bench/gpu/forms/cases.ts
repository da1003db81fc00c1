/** The forms of the language beyond the dense product, each with the hand-written launches that do the same. */
import type { Form } from './form.ts'
import { PRODUCT_FORMS } from './product_cases.ts'
import { ROW_FORMS } from './row_cases.ts'

export const FORMS: readonly Form[] = [...ROW_FORMS, ...PRODUCT_FORMS]
