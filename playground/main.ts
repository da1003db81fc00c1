/** The page of `ktl playground`: a text with what the compiler says of it, and what is made of it at every stage. */
import { linter } from '@codemirror/lint'
import { EditorState } from '@codemirror/state'
import { basicSetup, EditorView } from 'codemirror'
import type { Called } from '../runtime/playground/server.ts'
import { asEditorDiagnostics, check, colors, ktl } from './language.ts'

const BEGINNING = `kernel linear_gelu(A: bf16[m, k], B: bf16[k, n], bias: bf16[n]) -> D: bf16[m, n] {
  D = gelu(sum[k](A * B) + bias)
}
`
const MOST_CHARACTERS = 1 << 20

const at = <E extends HTMLElement>(id: string): E => document.getElementById(id) as E
const token = new URLSearchParams(location.search).get('token') ?? ''
const kernel = at<HTMLSelectElement>('kernel')
const target = at<HTMLSelectElement>('target')
const dims = at<HTMLInputElement>('dims')
const said = at('said')
const result = at('result')

let running: AbortController | null = null

const view = new EditorView({
  parent: at('editor'),
  state: EditorState.create({
    doc: BEGINNING,
    extensions: [
      basicSetup,
      ktl,
      colors,
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ 'aria-label': 'source text' }),
      linter(({ state }) => {
        const text = state.doc.toString()
        if (text.length > MOST_CHARACTERS) return tooLong(text)
        const { kernels, diagnostics } = check(text)
        offer(kernels)
        const errors = diagnostics.filter(({ severity }) => severity === 'error').length
        say(errors > 0 ? `${errors} error${errors > 1 ? 's' : ''}: ${diagnostics[0]!.code}: ${diagnostics[0]!.message}` : 'checked, no errors') // prettier-ignore
        return asEditorDiagnostics(diagnostics)
      }),
    ],
  }),
})

function tooLong(text: string): [] {
  say(`a program may have 1 MiB, this one has ${text.length.toLocaleString('en-US')} characters`)
  return []
}

function say(text: string): void {
  if (said.textContent !== text) said.textContent = text
}

/** Kernels of the text, the chosen one if it is still there. */
function offer(names: readonly string[]): void {
  if (names.length === 0 || names.join() === [...kernel.options].map(({ value }) => value).join()) return
  const chosen = kernel.value
  kernel.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)))
}

async function call(name: string): Promise<void> {
  running?.abort()
  const mine = (running = new AbortController())
  show(name, `${name} …`)
  const body = JSON.stringify({ source: view.state.doc.toString(), kernel: kernel.value, dims: dims.value, ...(name !== 'run' && { target: target.value }) }) // prettier-ignore
  try {
    const response = await fetch(`api/${name}`, { method: 'POST', body, headers: { 'x-ktl-token': token }, signal: mine.signal }) // prettier-ignore
    const answer = (await response.json()) as Called | { readonly error: string }
    if ('error' in answer) return show(name, answer.error)
    const { status, stdout, stderr } = answer
    if (status === null) return show(name, 'ended: it took longer than a minute, or had too much to say')
    if (name === 'timeline' && status === 0) return draw(stdout)
    show(name, [stdout, stderr].filter((text) => text !== '').join('\n'))
  } catch (error) {
    if (!mine.signal.aborted)
      show(name, `the server does not answer (${String(error)}): start \`ktl playground\` again`)
  }
}

function show(name: string, text: string): void {
  const pre = document.createElement('pre')
  pre.textContent = text
  pre.tabIndex = 0
  pre.setAttribute('aria-label', name)
  result.replaceChildren(pre)
}

function draw(page: string): void {
  const frame = document.createElement('iframe')
  frame.title = 'timeline'
  frame.setAttribute('sandbox', 'allow-scripts')
  frame.srcdoc = page
  result.replaceChildren(frame)
}

for (const button of document.querySelectorAll<HTMLButtonElement>('button[data-call]'))
  button.addEventListener('click', () => void call(button.dataset.call!))
document.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void call('run')
})
if (token === '') show('token', 'Open the address that `ktl playground` printed: without its token nothing runs here.')
// By the keyboard too, where the text is longer than its pane.
view.scrollDOM.tabIndex = 0
