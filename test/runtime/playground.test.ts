/** The server of `ktl playground`: whom it answers, and what it does with calls that end badly. */
import { request } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { servePlayground, type Playground } from '../../runtime/playground/server.ts'
import { ROOT } from '../root.ts'
import { folder, ktl } from './cli.ts'

let playground: Playground
let url: URL
let token: string

beforeAll(async () => {
  // Stands for the command: says its arguments and input, or hangs.
  const command = path.join(folder, 'command.mjs')
  writeFileSync(command, `let text = ''
    for await (const chunk of process.stdin) text += chunk
    if (text === 'hang') setInterval(() => {}, 1000)
    else console.log(JSON.stringify({ args: process.argv.slice(2), length: text.length }))`)
  writeFileSync(path.join(folder, 'index.html'), '<!doctype html>')
  playground = await servePlayground({ port: 0, pages: folder, command, timeoutMs: 1500 })
  url = new URL(playground.url)
  token = url.searchParams.get('token')!
}) // prettier-ignore

afterAll(() => playground.close())

interface Asked {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** `fetch` does not let its callers say another host. */
function ask(pathname: string, { method = 'GET', headers = {}, body = '' }: Asked = {}): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port: url.port, path: pathname, method, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk)).on('end', () => resolve({ status: response.statusCode!, body: text }))
    })
    asked.on('error', reject).end(body)
  })
} // prettier-ignore

const post = (name: string, question: object | string, headers: Readonly<Record<string, string>> = {}) =>
  ask(`/api/${name}`, {
    method: 'POST',
    headers: { 'x-ktl-token': token, ...headers },
    body: typeof question === 'string' ? question : JSON.stringify(question),
  })

describe('refuses', () => {
  test.each([
    ['another host', { host: 'evil.example:80' }, /answers to 127\.0\.0\.1/],
    ['another port of this machine', { host: '127.0.0.1:1' }, /answers to 127\.0\.0\.1/],
    ['another page', { origin: 'https://evil.example' }, /not from other pages/],
    ['a page without origin', { origin: 'null' }, /not from other pages/],
    ['no token', { 'x-ktl-token': '' }, /token is missing/],
    ['another token', { 'x-ktl-token': '0'.repeat(48) }, /that of another playground/],
  ])('%s', async (_, headers, reason) => {
    const { status, body } = await post('tensor', { source: '' }, headers)
    expect([status, (JSON.parse(body) as { error: string }).error]).toEqual([403, expect.stringMatching(reason)])
  })

  test.each([['/../package.json'], ['/%2e%2e/package.json'], ['/command.mjs'], ['/missing.html'], ['/api/nothing']])(
    '%s',
    async (pathname) => {
      expect((await ask(pathname, { headers: { 'x-ktl-token': token } })).status).toBe(404)
    },
  )

  test.each([['{'], ['null'], ['{}'], ['{"source":1}'], ['{"source":"","dims":["m=1"]}']])('the question %s', async (body) => {
    expect((await post('run', body)).status).toBe(400)
  }) // prettier-ignore

  test('a program of more than 1 MiB, and lives on', async () => {
    const { status, body } = await post('tensor', { source: 'x'.repeat(3 << 20) })
    expect([status, body]).toEqual([413, '{"error":"a program may have 1 MiB"}'])
    expect((await ask('/')).status).toBe(200)
    const [full, more] = await Promise.all(
      [1 << 20, (1 << 20) + 1].map((n) => post('tensor', { source: 'x'.repeat(n) })),
    )
    expect([full!.status, more!.status]).toEqual([200, 413])
    expect(JSON.parse((JSON.parse(full!.body) as { stdout: string }).stdout)).toMatchObject({ length: 1 << 20 })
  })

  test('a page that has disappeared, until it is there again', async () => {
    const file = path.join(folder, 'index.html')
    const page = readFileSync(file)
    rmSync(file)
    expect(await ask('/')).toEqual({ status: 404, body: '{"error":"there is no such page"}' })
    writeFileSync(file, page)
    expect((await ask('/')).status).toBe(200)
  })
})

test('its policy allows the images that the editor underlines mistakes with, and no other host', async () => {
  const policy = (await fetch(playground.url)).headers.get('content-security-policy')?.split('; ')
  expect(policy).toContain("img-src 'self' data:")
  expect(policy).toContain("default-src 'self'")
})

test('a command that has disappeared is said by the call; the server lives on', async () => {
  const command = path.join(folder, 'gone.mjs')
  const other = await servePlayground({ port: 0, pages: folder, command })
  const own = new URL(other.url)
  const headers = { 'x-ktl-token': own.searchParams.get('token')! }
  for (let again = 0; again < 2; again++) {
    const response = await fetch(new URL('/api/cuda', own), { method: 'POST', headers, body: '{"source":""}' })
    const called = (await response.json()) as { status: number; stderr: string }
    expect([response.status, called.status, called.stderr]).toEqual([200, 1, expect.stringContaining('gone.mjs')])
  }
  await other.close()
})

test('calls are the command with the text as its input; options cannot be mistaken for others', async () => {
  const { status, body } = await post('tile', { source: 'abc', kernel: '--out=x.txt', dims: 'm=1', target: '' })
  const called = JSON.parse(body) as { status: number; stdout: string }
  expect([status, called.status]).toEqual([200, 0])
  expect(JSON.parse(called.stdout)).toEqual({
    args: ['inspect', '-', '--stage=tile', '--kernel=--out=x.txt', '--dims=m=1'],
    length: 3,
  })
})

test('a call that hangs is ended; the next one is answered', async () => {
  const [hung, other] = await Promise.all([post('run', { source: 'hang' }), post('cuda', { source: '' })])
  expect((JSON.parse(hung.body) as { status: null }).status).toBe(null)
  expect((JSON.parse(other.body) as { status: number }).status).toBe(0)
})

test('a port that is taken is KTL4109, with what to do', async () => {
  const other = createServer()
  await new Promise<void>((resolve) => void other.listen(0, '127.0.0.1', resolve))
  const { port } = other.address() as AddressInfo
  const { status, stderr } = await ktl(['playground', '--no-open', '--port', String(port)])
  expect([status, stderr]).toEqual([2, expect.stringContaining(`KTL4109: port ${port} of 127.0.0.1 cannot be used: another program listens there`)]) // prettier-ignore
  expect(stderr).toContain('leave out `--port`')
  other.close()
})

test('the command prints the address, serves its pages, and runs a kernel; Ctrl-C ends it', async () => {
  let address = ''
  const ended = ktl(['playground', '--no-open'], {
    started(child) {
      child.stdout!.on('data', async (chunk: string) => {
        if (address !== '') return
        address = chunk.trim()
        const own = new URL(address)
        const headers = { 'x-ktl-token': own.searchParams.get('token')! }
        const page = await (await fetch(own)).text()
        const source = 'kernel double(x: f32[i]) -> y: f32[i] { y = x * 2 }'
        const body = JSON.stringify({ source, dims: 'i=8' })
        const run = await (await fetch(new URL('/api/run', own), { method: 'POST', headers, body })).text()
        child.kill('SIGINT')
        answers = [page, run]
      })
    },
    cwd: ROOT,
  })
  let answers: string[] = []
  expect((await ended).status).toBe(130)
  expect(answers[0]).toContain('<title>ktl playground</title>')
  expect(answers[1]).toMatch(/PASS {2}max error 0/)
  expect(answers[1]).toContain('errors of y: 1 x 8 elements')
})
