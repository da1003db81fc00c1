/** Starts the language server, and shows beside the text what ktl makes of it: stages, a timeline, a run. */
import { execFile } from 'node:child_process'
import * as vscode from 'vscode'
import { LanguageClient, TransportKind } from 'vscode-languageclient/node'

const STAGES = { showCuda: 'cuda', showTile: 'tile', showPlan: 'plan' } as const
let client: LanguageClient | undefined
/** What the last run of a kernel was asked for, by its name. */
const extents = new Map<string, string>()

const folder = (): string | undefined => vscode.workspace.workspaceFolders?.[0]?.uri.fsPath

function commandOf(): [string, ...string[]] {
  const command = vscode.workspace.getConfiguration('ktl').get<string[]>('command') ?? []
  return command.length > 0 ? (command as [string, ...string[]]) : ['npx', 'ktl']
}

const targetOf = (): string => vscode.workspace.getConfiguration('ktl').get<string>('target') ?? 'sm_100a'

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const [command, ...args] = commandOf()
  const server = { command, args: [...args, 'lsp'], transport: TransportKind.stdio, options: { cwd: folder() } }
  client = new LanguageClient('ktl', 'ktl', server, { documentSelector: [{ language: 'ktl' }] })
  const commands = {
    ...Object.fromEntries(Object.entries(STAGES).map(([name, stage]) => [name, () => showStage(stage)])),
    showTimeline,
    run,
  }
  for (const [name, show] of Object.entries(commands))
    context.subscriptions.push(vscode.commands.registerCommand(`ktl.${name}`, show))
  await client.start()
}

export const deactivate = (): Promise<void> | undefined => client?.stop()

interface Chosen {
  /** As it stands in the editor. */
  readonly text: string
  /** That the cursor is in or behind; '': none. */
  readonly kernel: string
}

function chosen(): Chosen | null {
  const editor = vscode.window.activeTextEditor
  if (editor?.document.languageId !== 'ktl') return null
  const before = editor.document.getText(new vscode.Range(new vscode.Position(0, 0), editor.selection.active))
  const kernel = [...before.matchAll(/^\s*(?:(?:approx|precise)\s+)?kernel\s+(\w+)/gm)].at(-1)?.[1] ?? ''
  return { text: editor.document.getText(), kernel }
}

interface Ended {
  readonly isWell: boolean
  readonly stdout: string
  /** With what was said of mistakes. */
  readonly all: string
}

/** The command on the text; null: who asked has ended it. */
function ktl(title: string, { text, kernel }: Chosen, call: string, ...options: string[]): Promise<Ended | null> {
  const [command, ...first] = commandOf()
  const args = [...first, call, '-', ...(kernel ? [`--kernel=${kernel}`] : []), ...options]
  const shown = { title: `ktl: ${title}`, location: vscode.ProgressLocation.Notification, cancellable: true }
  const ended = vscode.window.withProgress(shown, (_, token) => {
    return new Promise<Ended | null>((resolve) => {
      const child = execFile(command, args, { cwd: folder(), maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
        const said = error ? `${stdout}${stderr || error.message}` : stdout
        resolve(token.isCancellationRequested ? null : { isWell: error === null, stdout, all: said })
      })
      token.onCancellationRequested(() => void child.kill())
      // A command that is not there, or ends early, is said by the callback above.
      child.stdin?.on('error', () => {}).end(text)
    })
  })
  return Promise.resolve(ended)
}

async function showText(content: string, language = 'plaintext'): Promise<void> {
  const shown = await vscode.workspace.openTextDocument({ content, language })
  await vscode.window.showTextDocument(shown, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true })
}

async function showStage(stage: string): Promise<void> {
  const asked = chosen()
  const ended = asked && (await ktl(stage, asked, 'inspect', `--stage=${stage}`, `--target=${targetOf()}`))
  if (ended) await showText(ended.all, stage === 'cuda' && ended.isWell ? 'cpp' : 'plaintext')
}

/** The page that `ktl inspect` writes; it loads nothing. */
async function showTimeline(): Promise<void> {
  const asked = chosen()
  const options = ['--stage=timeline', '--format=html', `--target=${targetOf()}`]
  const ended = asked && (await ktl('timeline', asked, 'inspect', ...options))
  if (!ended) return
  if (!ended.isWell) return showText(ended.all)
  const beside = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true }
  const title = `timeline ${asked.kernel}`.trim()
  const panel = vscode.window.createWebviewPanel('ktl.timeline', title, beside, { enableScripts: true })
  panel.webview.html = ended.stdout
}

/** On the virtual device, compared with the reference evaluator. */
async function run(): Promise<void> {
  const asked = chosen()
  if (!asked) return
  const options = [`--device=${targetOf() === 'sm_90a' ? 'virtual-sm90' : 'virtual-sm100'}`, '--checks=full', '--show']
  const known = extents.get(asked.kernel)
  let ended = known === undefined ? await ktl('run', asked, 'run', ...options) : null
  // It says which extents it needs, with an example; a kernel that needs none has run.
  const example = known ?? /KTL4106[^]*--dims ([^\s`]+)/.exec(ended?.all ?? '')?.[1]
  if (example !== undefined) {
    const dims = await vscode.window.showInputBox({ title: `ktl: run ${asked.kernel}`, prompt: 'Extents of the axes', value: example })
    if (dims === undefined) return
    extents.set(asked.kernel, dims)
    ended = await ktl('run', asked, 'run', `--dims=${dims}`, ...options)
  }
  if (ended) await showText(ended.all)
} // prettier-ignore
