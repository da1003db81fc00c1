/** How ktl code is coloured: from the words that the lexer knows. */
import {
  AXIS_FUNCTION_NAMES, DERIVED_REDUCTION_NAMES, DTYPE_NAMES, FUNCTION_NAMES, KEYWORDS, LITERAL_NAMES, REDUCTION_NAMES,
} from '../../grammar/vocabulary.ts' // prettier-ignore

const words = (list: readonly string[]): string => `\\b(${list.join('|')})\\b`
const functions = [...FUNCTION_NAMES, ...REDUCTION_NAMES, ...DERIVED_REDUCTION_NAMES, ...AXIS_FUNCTION_NAMES]

/** A TextMate grammar, as Shiki takes it. */
export const ktl = {
  name: 'ktl',
  scopeName: 'source.ktl',
  patterns: [
    { match: '//.*$', name: 'comment.line' },
    { match: words(KEYWORDS.filter((word) => word !== 'size')), name: 'keyword.control' },
    { match: words(DTYPE_NAMES), name: 'support.type' },
    { match: `${words(functions)}(?=[(\\[])`, name: 'support.function' },
    { match: words(LITERAL_NAMES), name: 'constant.language' },
    { match: '\\b[0-9]+(x[0-9]+|cta)\\b', name: 'constant.other' },
    { match: '\\b[0-9]+(\\.[0-9]*)?([eE][+-]?[0-9]+)?\\b', name: 'constant.numeric' },
    { match: '->|[-+*/%^=<>!&|?]', name: 'keyword.operator' },
  ],
  repository: {},
}
