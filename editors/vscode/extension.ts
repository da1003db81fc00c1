/** Starts the language server, and shows what `ktl inspect` prints beside the text. */
import { execFile } from 'node:child_process'
import * as vscode from 'vscode'
import { LanguageClient, TransportKind } from 'vscode-languageclient/node'

const STAGES = { showCuda: 'cuda', showTile: 'tile', showPlan: 'plan' } as const
let client: LanguageClient | undefined

const folder = (): string | undefined => vscode.workspace.workspaceFolders?.[0]?.uri.fsPath

function commandOf(): [string, ...string[]] {
  const command = vscode.workspace.getConfiguration('ktl').get<string[]>('command') ?? []
  return command.length > 0 ? (command as [string, ...string[]]) : ['npx', 'ktl']
}

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const [command, ...args] = commandOf()
  const server = { command, args: [...args, 'lsp'], transport: TransportKind.stdio, options: { cwd: folder() } }
  client = new LanguageClient('ktl', 'ktl', server, { documentSelector: [{ language: 'ktl' }] })
  for (const [name, stage] of Object.entries(STAGES))
    context.subscriptions.push(vscode.commands.registerCommand(`ktl.${name}`, () => showBeside(stage)))
  await client.start()
}

export const deactivate = (): Promise<void> | undefined => client?.stop()

/** Of the kernel that the cursor is in or behind, as its text stands in the editor. */
async function showBeside(stage: string): Promise<void> {
  const editor = vscode.window.activeTextEditor
  if (editor?.document.languageId !== 'ktl') return
  const [command, ...first] = commandOf()
  const target = vscode.workspace.getConfiguration('ktl').get<string>('target') ?? 'sm_100a'
  const before = editor.document.getText(new vscode.Range(new vscode.Position(0, 0), editor.selection.active))
  const kernel = [...before.matchAll(/^\s*(?:(?:approx|precise)\s+)?kernel\s+(\w+)/gm)].at(-1)?.[1]
  const args = [...first, 'inspect', '-', '--stage', stage, '--target', target, ...(kernel ? ['--kernel', kernel] : [])]
  const content = await new Promise<string>((resolve) => {
    const child = execFile(command, args, { cwd: folder(), maxBuffer: 1 << 26 }, (error, stdout, stderr) =>
      resolve(error ? `${stdout}${stderr || error.message}` : stdout),
    )
    child.stdin?.end(editor.document.getText())
  })
  const language = stage === 'cuda' ? 'cpp' : 'plaintext'
  const shown = await vscode.workspace.openTextDocument({ content, language })
  await vscode.window.showTextDocument(shown, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true })
}
