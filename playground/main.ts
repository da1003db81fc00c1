/** The page of `ktl playground`: a text with what the compiler says of it, and what is made of it at every stage. Without a server: all but what needs a device. */
import { linter } from '@codemirror/lint'
import { EditorState } from '@codemirror/state'
import { basicSetup, EditorView } from 'codemirror'
import type { TargetArch } from '../compiler/instance.ts'
import type { Called } from '../runtime/playground/server.ts'
import { Compiler, PageDevice } from './compiler.ts'
import { asEditorDiagnostics, colors, ktl } from './language.ts'
import { highlight, linkedLines, madeFrom, originOf } from './links.ts'
import { hashOf, sharedIn, type Shared } from './share.ts'
import { DEVICE_CALLS, STAGES, type Checked, type DeviceCall, type Made, type Stage } from './stages.ts'

/** Texts of samples by name, which the build puts here. */
declare const EXAMPLES: Readonly<Record<string, string>>

const BEGINNING = `kernel linear_gelu(A: bf16[m, k], B: bf16[k, n], bias: bf16[n]) -> D: bf16[m, n] {
  D = gelu(sum[k](A * B) + bias)
}
`
const MOST_CHARACTERS = 1 << 20
const NO_SERVER =
  'This needs a device, which is what `npx ktl playground` has: this page comes without it, from a site of files. All other buttons work here.'
const HAS_DEVICE =
  'The virtual device runs in this page, with PTX of the examples for sm_100a and sm_90a that was made before. Of programs that you change, all but run, timeline and PTX is made here; those need `npx ktl playground`.'

const at = <E extends HTMLElement>(id: string): E => document.getElementById(id) as E
const token = new URLSearchParams(location.search).get('token') ?? ''
const kernel = at<HTMLSelectElement>('kernel')
const target = at<HTMLSelectElement>('target')
const dims = at<HTMLInputElement>('dims')
const examples = at<HTMLSelectElement>('examples')
const said = at('said')
const result = at('result')

const checker = new Compiler()
const compiler = new Compiler()
/** Of a site of files that was built with one (site.ts). */
const script = document.documentElement.dataset.device
const device = script === undefined ? null : new PageDevice(script)
let running: AbortController | null = null
/** What is shown and follows the text; null: what only a button asks for again. */
let following: Stage | null = null
let cuda: { readonly view: EditorView; readonly origins: NonNullable<Made['origins']> } | null = null
let kernels: Checked['kernels'] = []
/** An example has been put in: its extents are to be proposed once it is checked. */
let isNew = false

const view = new EditorView({
  parent: at('editor'),
  state: EditorState.create({
    doc: BEGINNING,
    extensions: [
      basicSetup,
      ktl,
      colors,
      linkedLines,
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ 'aria-label': 'source text' }),
      EditorView.updateListener.of(({ docChanged, selectionSet }) => {
        // Its places are those of the text before.
        if (docChanged) {
          unlink()
          say('not checked yet')
        } else if (selectionSet) linkToCuda()
      }),
      linter(async ({ state }) => {
        const text = state.doc.toString()
        if (text.length > MOST_CHARACTERS) return tooLong(text)
        const checked = await checker.check(text).catch((error: Error) => say(error.message))
        if (!checked) return []
        const { diagnostics } = checked
        offer(checked.kernels)
        const errors = diagnostics.filter(({ severity }) => severity === 'error')
        const [first] = errors
        say(first ? `${errors.length} error${errors.length > 1 ? 's' : ''}: ${first.code}: ${first.message}` : 'checked, no errors') // prettier-ignore
        if (!first && following) void ask(following)
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
function offer(found: Checked['kernels']): void {
  if (found.length === 0) return
  kernels = found
  const names = found.map(({ name }) => name)
  if (names.join() !== [...kernel.options].map(({ value }) => value).join()) {
    const chosen = kernel.value
    kernel.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)))
  }
  if (isNew) proposeDims()
  isNew = false
}

function proposeDims(): void {
  dims.value = kernels.find(({ name }) => name === kernel.value)?.dims ?? dims.value
}

/** What is asked for by the buttons, and by changes of what it depends on. */
async function ask(name: string): Promise<void> {
  running?.abort()
  compiler.stop()
  device?.stop()
  following = null
  if ((STAGES as readonly string[]).includes(name)) return make(name as Stage)
  if (token !== '') return call(name)
  if (device && (DEVICE_CALLS as readonly string[]).includes(name)) return callDevice(device, name as DeviceCall)
  show(name, NO_SERVER)
}

/** By the page itself. */
async function make(stage: Stage): Promise<void> {
  following = stage
  const source = view.state.doc.toString()
  try {
    const made = await compiler.make({ stage, ...chosen(), source })
    if (made === null) return
    // While it was made, the text has changed: it will be made again.
    if (made.origins && source === view.state.doc.toString()) showCuda(made.text, made.origins)
    else show(stage, made.text)
  } catch (error) {
    show(stage, (error as Error).message)
  }
}

const chosen = () => ({ source: view.state.doc.toString(), kernel: kernel.value, target: target.value as TargetArch, dims: dims.value }) // prettier-ignore

/** By the virtual device in the page. */
async function callDevice(device: PageDevice, name: DeviceCall): Promise<void> {
  show(name, `${name} …`)
  try {
    const ran = await device.run({ call: name, ...chosen() })
    if (ran === null) return
    if ('page' in ran) draw(ran.page)
    else show(name, ran.text)
  } catch (error) {
    show(name, (error as Error).message)
  }
}

/** By the server, which has devices and nvcc. */
async function call(name: string): Promise<void> {
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

function replaceResult(...nodes: readonly Node[]): void {
  cuda?.view.destroy()
  cuda = null
  highlight(view, [])
  result.replaceChildren(...nodes)
}

function show(name: string, text: string): void {
  const pre = document.createElement('pre')
  pre.textContent = text
  pre.tabIndex = 0
  pre.setAttribute('aria-label', name)
  replaceResult(pre)
}

function draw(page: string): void {
  const frame = document.createElement('iframe')
  frame.title = 'timeline'
  frame.setAttribute('sandbox', 'allow-scripts')
  frame.srcdoc = page
  replaceResult(frame)
}

/** With a cursor of its own: its line and those of the program that it comes from belong together. */
function showCuda(text: string, origins: NonNullable<Made['origins']>): void {
  const parent = document.createElement('div')
  parent.className = 'cuda'
  replaceResult(parent)
  const extensions = [
    basicSetup,
    linkedLines,
    EditorState.readOnly.of(true),
    EditorView.contentAttributes.of({ 'aria-label': 'CUDA', 'aria-readonly': 'true' }),
    EditorView.updateListener.of(({ state, selectionSet, view: { hasFocus } }) => {
      if (!selectionSet || !hasFocus || !cuda) return
      const { number } = state.doc.lineAt(state.selection.main.head)
      highlight(view, originOf(view, cuda.origins[number - 1]))
    }),
  ]
  cuda = { view: new EditorView({ parent, doc: text, extensions }), origins }
  cuda.view.scrollDOM.tabIndex = 0
  linkToCuda()
}

function linkToCuda(): void {
  if (!cuda) return
  const { from, to } = view.state.doc.lineAt(view.state.selection.main.head)
  const { view: shown, origins } = cuda
  // Not within an update of the other one.
  queueMicrotask(() => {
    if (cuda?.view !== shown) return
    highlight(view, [])
    highlight(shown, madeFrom(origins, from, to))
  })
}

function unlink(): void {
  if (cuda) cuda = { ...cuda, origins: [] }
}

async function share(): Promise<void> {
  const shared: Shared = { source: view.state.doc.toString(), kernel: kernel.value, target: target.value, dims: dims.value } // prettier-ignore
  const hash = await hashOf(shared)
  history.replaceState(null, '', location.pathname + location.search + hash)
  // Without the token, which is this user's alone.
  const link = document.createElement('input')
  link.value = location.origin + location.pathname + hash
  link.readOnly = true
  link.setAttribute('aria-label', 'link to this program')
  const label = document.createElement('p')
  label.textContent = 'The program is in the link itself; what follows # is sent to no server. It opens in every playground: put that part behind the address of another one.' // prettier-ignore
  following = null
  replaceResult(label, link)
  link.select()
}

function put(text: string): void {
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: 0 } })
}

async function openShared(): Promise<void> {
  try {
    const shared = await sharedIn(location.hash)
    if (!shared) return
    kernel.replaceChildren(new Option(shared.kernel))
    dims.value = shared.dims
    if ([...target.options].some(({ value }) => value === shared.target)) target.value = shared.target
    put(shared.source)
  } catch (error) {
    show('link', (error as Error).message)
  }
}

examples.append(...Object.keys(EXAMPLES).map((name) => new Option(name)))
examples.addEventListener('change', () => {
  isNew = true
  // Until it is checked, its first one.
  kernel.replaceChildren()
  put(EXAMPLES[examples.value] ?? BEGINNING)
  // So that the same one can be chosen again.
  examples.selectedIndex = 0
})
for (const button of document.querySelectorAll<HTMLButtonElement>('button[data-call]'))
  button.addEventListener('click', () => void ask(button.dataset.call!))
at('share').addEventListener('click', () => void share())
kernel.addEventListener('change', proposeDims)
for (const choice of [kernel, target, dims]) choice.addEventListener('change', () => void (following && ask(following)))
document.addEventListener(
  'keydown',
  (event) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
    // Before the editor sees it, which takes it for a new line.
    event.preventDefault()
    event.stopPropagation()
    void ask('run')
  },
  { capture: true },
)
window.addEventListener('hashchange', () => void openShared())
if (token === '') show('devices', device ? HAS_DEVICE : 'No device is behind this page: run, timeline and PTX need `npx ktl playground`. All else is made by the page itself.') // prettier-ignore
void openShared()
// By the keyboard too, where the text is longer than its pane.
view.scrollDOM.tabIndex = 0
