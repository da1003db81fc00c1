/** KTL30xx: schedules. */
import type { Span } from '../ast.ts'
import { code, entry, orList } from './entry.ts'
import { didYouMean } from './names.ts'

const schedule = (head: string, entries: string): string =>
  `kernel f(A: f16[m, k], B: f16[k, n]) -> D: f16[m, n] { D = sum[k](A * B) }\nschedule ${head} { ${entries} }\n`
const on = (entries: string): string => schedule('f on sm_100', entries)

export const schedules = {
  KTL3001: entry<{ key: string; candidates: readonly string[] }>({
    title: 'unknown schedule entry',
    explain:
      'The entries are `mma`, `tile`, `cluster`, `fallback`, `scheduler`, `operands`, `stages`, `overlap` and `reassociate` (`sm_80` also has `f32`). What is not written is `auto`.',
    wrong: { ktl: on('tiles 128x64') },
    right: { ktl: on('tile 128x64') },
    word: ({ key, candidates }, at) => ({
      message: `unknown schedule entry ${code(key)}`,
      label: 'not an entry',
      ...didYouMean(key, candidates, at),
    }),
  }),
  KTL3002: entry<{ target: string; candidates: readonly string[] }>({
    title: 'unknown target',
    explain: 'A schedule is for one target: an architecture such as `sm_100`, or `simt`.',
    wrong: { ktl: schedule('f on sm_1000', 'tile 128x64') },
    right: { ktl: schedule('f on sm_100', 'tile 128x64') },
    word: ({ target, candidates }, at) => ({
      message: `unknown target ${code(target)}`,
      label: 'not a target',
      ...didYouMean(target, candidates, at),
    }),
  }),
  KTL3003: entry<{ kernel: string; candidates: readonly string[] }>({
    title: 'schedule of an unknown kernel',
    explain: 'A schedule names one or more kernels of the same file.',
    wrong: { ktl: schedule('g on sm_100', 'tile 128x64') },
    right: { ktl: schedule('f on sm_100', 'tile 128x64') },
    word: ({ kernel, candidates }, at) => ({
      message: `there is no kernel ${code(kernel)} to schedule`,
      label: 'not a kernel of this file',
      ...didYouMean(kernel, candidates, at),
    }),
  }),
  KTL3004: entry<{ key: string; value: string; expected: string; candidates?: readonly string[] }>({
    title: 'value that the schedule entry does not take',
    explain:
      '`mma` takes `1cta` or `2cta`, `tile` shapes such as `128x64`, `cluster` shapes such as `2x1`, `fallback` ' +
      '`none` or such a shape, `scheduler` `static` or `clc`, `operands` `ab` or `ba`, `stages` a number; all of ' +
      'them take `auto`.',
    wrong: { ktl: on('scheduler dynamic') },
    right: { ktl: on('scheduler clc') },
    word: ({ key, value, expected, candidates }, at) => ({
      message: `${code(key)} does not take ${code(value)}`,
      label: `expected ${expected}`,
      ...(candidates === undefined ? {} : didYouMean(value, candidates, at)),
    }),
  }),
  KTL3005: entry<{ key: string; previous: Span | null }>({
    title: 'schedule entry given twice',
    explain: 'Each entry stands once; its alternatives are joined with `|`.',
    wrong: { ktl: on('tile 128x64; tile 128x128') },
    right: { ktl: on('tile 128x64 | 128x128') },
    word: ({ key, previous }) => ({
      message: `the entry ${code(key)} is given twice`,
      label: 'again',
      ...(previous && { labels: [{ span: previous, text: 'first given here' }] }),
      help: 'join the alternatives with `|`',
    }),
  }),
  KTL3006: entry<{ kernel: string; target: string; previous: Span | null }>({
    title: 'second schedule that adds no design',
    explain:
      'The designs of all schedules of a kernel for one target join; a schedule whose designs are all there has no effect.',
    severity: 'warning',
    wrong: { ktl: `${on('tile 128x64 | 128x128')}schedule f on sm_100 { tile 128x64 }\n` },
    right: { ktl: `${on('tile 128x64 | 128x128')}schedule f on sm_100 { tile 128x64; stages 3 }\n` },
    word: ({ kernel, target, previous }) => ({
      message: `this schedule adds no design of ${code(kernel)} on ${code(target)}`,
      label: 'all its designs are there already',
      ...(previous && { labels: [{ span: previous, text: 'first schedule' }] }),
    }),
  }),
  KTL3007: entry<{ value: string; previous: Span | null }>({
    title: 'schedule alternative given twice',
    explain: 'The alternatives of an entry are different from each other; a second copy has no effect.',
    severity: 'warning',
    wrong: { ktl: on('tile 128x64 | 128x64') },
    right: { ktl: on('tile 128x64 | 128x128') },
    word: ({ value, previous }) => ({
      message: `the alternative ${code(value)} is given twice`,
      label: 'again',
      ...(previous && { labels: [{ span: previous, text: 'first given here' }] }),
    }),
  }),
  KTL3008: entry<{ key: string; takes: 'a value' | 'no value'; example: string }>({
    title: 'schedule entry with the wrong number of values',
    explain: '`reassociate` is a switch and takes no value. All other entries take at least one.',
    wrong: { ktl: on('tile') },
    right: { ktl: on('tile 128x64') },
    word: ({ key, takes, example }) => ({
      message: `${code(key)} takes ${takes}`,
      label: takes === 'a value' ? 'no value given' : 'value given',
      help: `write ${code(example)}`,
    }),
  }),
  KTL3009: entry<{ key: string; value: string; legal: readonly string[]; why: string }>({
    title: 'schedule value out of range',
    explain: 'The value has the right form, but the target has nothing of that size.',
    wrong: { ktl: on('tile 100x64') },
    right: { ktl: on('tile 128x64') },
    word: ({ key, value, legal, why }) => ({
      message: `${code(key)} cannot be ${code(value)}: ${why}`,
      label: 'out of range',
      ...(legal.length > 0 && { help: `possible: ${orList(legal)}` }),
    }),
  }),
  KTL3010: entry<{ key: string; target: string; taken: readonly string[] }>({
    title: 'schedule entry that the target does not have',
    explain: 'Each target has its own entries: `simt` kernels have a tile only.',
    wrong: { ktl: schedule('f on simt', 'mma 1cta') },
    right: { ktl: schedule('f on simt', 'tile 16x16') },
    word: ({ key, target, taken }) => ({
      message: `${code(target)} has no entry ${code(key)}`,
      label: 'not on this target',
      help: `${code(target)} takes ${orList(taken.map(code), 'and')}`,
    }),
  }),
  KTL3011: entry<{ target: string; why: string }>({
    title: 'schedule without a design',
    explain:
      'No combination of the alternatives is consistent: a tile with 256 rows needs `mma 2cta`, one with 64 rows ' +
      '`mma 1cta`, `2cta` an even cluster, and a fallback cluster divides a larger cluster evenly; k is split by ' +
      '`cooperative` warpgroups in `cluster 1x1`, with `reassociate`.',
    wrong: { ktl: on('mma 1cta; tile 256x128') },
    right: { ktl: on('mma 2cta; tile 256x128') },
    word: ({ target, why }) => ({
      message: `no combination of these entries is a design for ${code(target)}`,
      label: 'no design',
      notes: [why],
    }),
  }),
  KTL3012: entry<{ kernel: string; previous: Span; after: number }>({
    title: 'kernel named twice in a schedule',
    explain: 'A schedule may name several kernels, each once; a second copy has no effect.',
    severity: 'warning',
    wrong: { ktl: schedule('f, f on sm_100', 'tile 128x64') },
    right: { ktl: schedule('f on sm_100', 'tile 128x64') },
    word: ({ kernel, previous, after }, { span }) => ({
      message: `the schedule names the kernel ${code(kernel)} twice`,
      label: 'again',
      labels: [{ span: previous, text: 'first named here' }],
      help: 'remove the second one',
      ...(span && { fix: { description: 'remove it', span: { start: after, end: span.end }, replacement: '' } }),
    }),
  }),
}
