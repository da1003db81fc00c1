/** How ktl is coloured: a TextMate grammar from the words that the lexer knows, for editors and for the documentation. */
import {
  AXIS_FUNCTION_NAMES,
  DERIVED_REDUCTION_NAMES,
  DTYPE_NAMES,
  FUNCTION_NAMES,
  KEYWORDS,
  LITERAL_NAMES,
  REDUCTION_NAMES,
} from './vocabulary.ts'

const words = (list: readonly string[]): string => `\\b(${list.join('|')})\\b`
const functions = [...FUNCTION_NAMES, ...REDUCTION_NAMES, ...DERIVED_REDUCTION_NAMES, ...AXIS_FUNCTION_NAMES]

export const textMateGrammar = {
  name: 'ktl',
  scopeName: 'source.ktl',
  patterns: [
    { match: '///.*$', name: 'comment.line.documentation.ktl' },
    { match: '//.*$', name: 'comment.line.double-slash.ktl' },
    { match: words(KEYWORDS.filter((word) => word !== 'size')), name: 'keyword.control.ktl' },
    { match: words(DTYPE_NAMES), name: 'support.type.ktl' },
    { match: `${words(functions)}(?=[(\\[])`, name: 'support.function.ktl' },
    { match: words(LITERAL_NAMES), name: 'constant.language.ktl' },
    { match: '\\b[0-9]+(x[0-9]+|cta)+\\b', name: 'constant.other.ktl' },
    { match: '\\b[0-9]+(\\.[0-9]*)?([eE][+-]?[0-9]+)?\\b', name: 'constant.numeric.ktl' },
    { match: '->|[-+*/%^=<>!&|?]', name: 'keyword.operator.ktl' },
  ],
  repository: {},
}
