/** `ktl run` and what it needs: devices, nvcc, the cache; and the commands that compile. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { openDevice } from '../../runtime/index.ts'
import { prepareCase, runCase } from '../../runtime/selftest/run_case.ts'
import { deviceCases } from '../../runtime/selftest/table.ts'
import { FULL, sampled, part } from '../cases_of.ts'
import { folder, ktl, lastLine, records } from './cli.ts'
import { command } from './command.ts'

const GEMM = ['run', 'samples/gemm.ktl', '--dims', 'm=64,n=72,k=40']

describe('run', () => {
  test('an epilogue with a number and an assumed operand', async () => {
    const ended = await ktl([...GEMM, '--type', 'T=f16,O=f32', '--epilogue', 'relu(acc*alpha+C)', '--arg', 'alpha=2'])
    expect([ended.status, ended.stderr]).toEqual([0, ''])
    const { stdout } = ended
    expect(stdout).toContain('kernel    gemm  T=f16, O=f32\ndims      m=64 n=72 k=40\n')
    expect(stdout).toContain('assumed   C is a f32[m, n] tensor')
    expect(stdout).toMatch(/^device {4}virtual-sm100 /m)
    expect(stdout).toMatch(/^instance {2}ktl\.gemm_sm100_ttt_Af16_Bf16_outf32_/m)
    expect(stdout).toMatch(/^compiled {2}.*nvcc \d+\.\d+/m)
    expect(stdout).toMatch(/^findings {2}none$/m)
    expect(lastLine(ended)).toMatch(/^PASS {2}max error \S+$/)
  })

  test('integers are exact; a record and a summary with --json', async () => {
    const ended = await ktl([...GEMM, '--inputs', 'integers', '--order', 'A=km,B=nk,D=nm', '--json'])
    expect([ended.status, ended.stderr]).toEqual([0, ''])
    const [run, summary] = records(ended)
    expect(run).toMatchObject({
      schema: 1, kind: 'run', kernel: 'gemm', device: 'virtual-sm100', dims: { m: 64, n: 72, k: 40 }, pass: true, exact: true,
      maxError: 0, compared: 64 * 72, findings: [],
    }) // prettier-ignore
    expect(summary).toEqual({ schema: 1, kind: 'summary', pass: true, instances: 1, failed: 0, maxError: 0 })
  })

  const samples = [
    ['scaled', 'nvfp4', 'm=5,n=6,k=36', [], /^operands .*A\.scale: ue4m3\[m, k\/16\]/m],
    ['scaled', 'u4_weights', 'm=5,n=6,k=130', [], /W\.scale: f16\[k\/128, n\], W\.zero: u4\[k\/128, n\]/],
    ['scaled', 'quantised', 'm=3,n=40,k=8', [], /D\.scale: ue8m0\[m, n\/32\]/],
    ['conv2d', 'conv2d', 'b=1,h=5,w=4,c=3,f=2,r=3,s=3,p=3,q=4', ['--arg', 'stride=2'], /pad = 1 \(--arg pad=/],
    [
      'conv2d',
      'conv_data_gradient',
      'b=1,h=5,w=4,c=3,f=2,r=3,s=3,p=3,q=2',
      ['--arg', 'stride=2', '--arg', 'pad=1'],
      /all 60 elements/,
    ],
    [
      'conv2d',
      'conv_filter_gradient',
      'b=1,h=5,w=4,c=3,f=2,r=3,s=3,p=3,q=2',
      ['--arg', 'stride=2', '--arg', 'pad=1'],
      /all 54 elements/,
    ],
    ['rows', 'gather', 'v=5,c=3,t=9', [], /which must be equal/],
    ['rows', 'scatter', 'v=5,c=3,t=9', [], /which must be equal/],
    ['grouped', 'grouped', 't=20,k=8,n=6,g=4', ['--arg', 'ends=[3,3,11,15]'], /all 120 elements/],
    ['grouped', 'experts', 't=20,v=30,k=8,n=6,g=4', [], /findings {2}none/],
    ['grouped', 'weight_gradient', 't=20,k=8,n=6,g=4', [], /all 192 elements/],
    ['norm_gemm', 'norm_gemm', 'm=5,n=6,k=36', [], /findings {2}none/],
    ['norms', 'cross_entropy', 'm=5,c=36', [], /findings {2}none/],
    ['attention', 'attention', 'b=1,h=4,hk=2,m=5,n=7,d=8,e=6', [], /all 140 elements/],
    ['paged', 'paged', 'b=2,h=2,hk=1,d=8,e=8,p=5,s=16,j=2', [], /findings {2}none/],
  ] as const
  // Their inputs are made as those of others here; test/samples runs all.
  const alike: readonly string[] = [
    'nvfp4',
    'conv_data_gradient',
    'conv_filter_gradient',
    'gather',
    'weight_gradient',
    'quantised',
    'norm_gemm',
    'cross_entropy',
    'attention',
  ]
  test.each(samples.filter(([, kernel]) => FULL || !alike.includes(kernel)))('inputs of samples/%s.ktl, %s, are legal, and the result is right', async (file, kernel, dims, more, expected) => {
    const ended = await command(['run', `samples/${file}.ktl`, '--kernel', kernel, '--dims', dims, ...more])
    expect([ended.status, ended.stderr.replace(/^samples.*KTL2306[^]*$/, '')]).toEqual([0, ''])
    expect(ended.stdout).toMatch(expected)
    expect(lastLine(ended)).toMatch(/^PASS/)
  }) // prettier-ignore

  test('a finding of an index that was given is a failed run', async () => {
    const ended = await command(['run', 'samples/rows.ktl', '--kernel', 'gather', '--dims', 'v=2,c=3,t=2', '--arg', 'id=[1,2]'])
    expect([ended.status, lastLine(ended)]).toEqual([1, 'FAIL  1 finding'])
    expect(ended.stderr).toContain('KTL5025')
  }) // prettier-ignore

  // cli.test.ts has names that nobody reads.
  const wrong = [
    ['id=[1,x]', 'KTL4103'],
    ['idd=[1,2]', 'KTL4105'],
    ['id=[1]', 'KTL4001'],
  ] as const
  test.each(sampled(wrong))('--arg %s', async (arg, code) => {
    const ended = await command([
      'run',
      'samples/rows.ktl',
      '--kernel',
      'gather',
      '--dims',
      'v=2,c=3,t=2',
      '--arg',
      arg,
    ])
    expect(ended.stderr).toContain(code)
  })

  test('axes that a kernel computes take no extent', async () => {
    const ended = await command(['run', 'samples/paged.ktl', '--dims', 'b=2,h=2,hk=1,d=8,e=8,p=5,s=16,j=2,n=4'])
    expect(ended.stderr).toContain('KTL4105')
  })

  test('annotated operands, extra outputs, a batch, full checks, random arrival', async () => {
    const text = 'def f(acc, bias, s):\n  F = acc + bias[n]\n  D = F * s[l, m]\n  return D, F'
    const ended = await command(['run', 'samples/gemm.ktl', '--dims', 'l=2,m=70,n=40,k=24', '--epilogue', text, '--arg', 'F=f32', '--checks', 'full', '--async', 'random'])
    expect([ended.status, ended.stderr]).toEqual([0, ''])
    expect(ended.stdout).toContain('F: f32[l, m, n]')
    expect(ended.stdout).toContain('bias is a f16[n] tensor')
    expect(ended.stdout).toContain('s is a f16[l, m] tensor')
  }) // prettier-ignore

  const axes = [
    ['m', 'C: f32[m, 1]'],
    ['n', 'C: f32[n]'],
    ['n,m', 'C: f32[m, n] stored [n, m]'],
    ['1', 'C: f32[1]'],
  ] as const
  test.each(sampled(axes))('axes of --arg are axes, whatever the extents are: %s', async (given, said) => {
    const arg = ['--epilogue', 'acc + C', '--arg', `C=f32[${given}]`]
    const ended = await command(['run', 'samples/gemm.ktl', '--dims', 'm=8,n=8,k=8', ...arg])
    expect(ended.stdout).toContain(said)
    expect(lastLine(ended)).toMatch(/^PASS/)
  })

  test('--all runs every instance up to --limit', async () => {
    const ended = await command([...GEMM, '--all', '--limit', '2'])
    expect(ended.status).toBe(0)
    expect(ended.stdout.match(/^instance /gm)?.length).toBe(2)
    expect(lastLine(ended)).toMatch(/^PASS {2}2 of 2 instances pass, max error /)
  })

  // The one that would not be taken otherwise; in the full test all.
  test.each(part(['sm80', 'sm90', 'simt'], ['sm90', 'simt']))('--design %s on a device of 9.0', async (design) => {
    const ended = await command([...GEMM, '--device', 'virtual-sm90', '--design', design])
    expect([ended.status, ended.stderr]).toEqual([0, ''])
    expect(ended.stdout).toContain(`instance  ktl.gemm_${design}_ttt_`)
    expect(lastLine(ended)).toMatch(/^PASS/)
  })

  test('--instance and --index choose, seeds change the inputs', async () => {
    const [{ instance }] = records(await command([...GEMM, '--index', '1', '--json'])) as [{ instance: string }]
    const [named] = records(await command([...GEMM, '--instance', instance, '--seed', '5', '--json']))
    expect(named).toMatchObject({ instance, seed: 5, pass: true })
  })

  test('kernels without a tensor-core form, from standard input', async () => {
    const stdin =
      'kernel f(X: i32[i, j], s: i32) -> (Y: i32[i, j], top: i32[i]) {\n  Y = X * s\n  top[i] = max[j](X)\n}\n'
    const ended = await ktl(['run', '-', '--dims', 'i=5,j=33', '--arg', 's=-3'], { stdin })
    expect([ended.status, ended.stderr]).toEqual([0, ''])
    expect(lastLine(ended)).toBe('PASS  max error 0 (exact)')
  })

  // kernel.test.ts runs both without a process.
  test.each(sampled(['m=0,n=8,k=8', 'm=8,n=8,k=0']))('empty extents: %s', async (dims) => {
    expect(lastLine(await command(['run', 'samples/gemm.ktl', '--dims', dims]))).toBe('PASS  max error 0 (exact)')
  })

  test('--trace writes a Chrome trace', async () => {
    const file = path.join(folder, 'trace.json')
    expect((await command([...GEMM, '--trace', file])).status).toBe(0)
    expect(JSON.parse(readFileSync(file, 'utf8'))).toBeTruthy()
  })

  test('mistakes in the epilogue: status 1, with the place in it', async () => {
    const { status, stdout, stderr } = await command([...GEMM, '--epilogue', 'relu(acc +'])
    expect([status, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^--epilogue:1:\d+: error KTL10/)
  })
})

describe('what is missing on the machine: status 3', () => {
  test('nvcc', async () => {
    const { status, stderr } = await ktl([...GEMM, '--seed', '1'], {
      env: { KTL_NVCC: '/nonexistent/nvcc', PATH: '', KTL_CACHE_DIR: path.join(folder, 'empty') },
    })
    expect(status).toBe(3)
    expect(stderr).toContain('error KTL6001: nvcc was not found')
    expect(stderr).toContain('help: install the CUDA toolkit')
  })
  test('a GPU', async () => {
    const { status, stderr } = await ktl([...GEMM, '--device', 'cuda'])
    expect([status, stderr.includes('KTL6005')]).toEqual([3, true])
  })
  test('the addon', async () => {
    const { status, stderr } = await ktl(GEMM, { env: { KTL_NATIVE: '/nonexistent/ktl.node' } })
    expect([status, stderr.includes('KTL6004'), stderr.includes('npx ktl build-addon')]).toEqual([3, true, true])
  })
  test('a disassembler', async () => {
    const { status, stderr } = await ktl(['inspect', 'samples/gemm.ktl', '--stage', 'sass'], {
      env: { PATH: '/nonexistent' },
    })
    // A toolkit in its usual folder may have one, and then lacks nothing but g++.
    expect([status, /error KTL600[37]/.test(stderr)]).toEqual([3, true])
  })
})

test('a corrupt cache is made again', async () => {
  const cache = path.join(folder, 'corrupt')
  const call = () => ktl(['run', 'samples/dgemm.ktl', '--dims', 'm=3,n=4,k=5'], { env: { KTL_CACHE_DIR: cache } })
  expect(lastLine(await call())).toMatch(/^PASS/)
  const entries = readdirSync(cache, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  expect(entries.length).toBeGreaterThan(0)
  for (const entry of entries) writeFileSync(path.join(entry.parentPath, entry.name), 'not a kernel')
  const again = await call()
  expect(again.stdout).not.toContain('from the cache')
  expect(lastLine(again)).toMatch(/^PASS/)
  expect((await call()).stdout).toContain('from the cache')
})

test('Ctrl-C: status 130', async () => {
  const ended = await ktl(['run', 'samples/dgemm.ktl', '--dims', 'm=1024,n=1024,k=1024'], {
    // Once the header is there the launch is under way.
    started: (child) =>
      child.stdout!.on('data', (text: string) => {
        if (text.includes('rank ')) setTimeout(() => child.kill('SIGINT'), 500)
      }),
  })
  expect([ended.status, ended.stderr]).toEqual([130, 'ktl: interrupted\n'])
  expect(ended.stdout).not.toMatch(/PASS|FAIL/)
})

describe('build', () => {
  const out = (name: string): string => path.join(folder, name)

  test('ts: a module for each file', async () => {
    const { status, stdout } = await command([
      'build',
      'samples/linear.ktl',
      'samples/residual.ktl',
      '--out',
      out('ts'),
    ])
    expect([status, stdout]).toEqual([0, `${out('ts')}/linear.ts\n${out('ts')}/residual.ts\n`])
    expect(readdirSync(out('ts')).sort()).toEqual(['linear.ts', 'residual.ts'])
    expect(readFileSync(out('ts/linear.ts'), 'utf8')).toContain('export const linearGelu = ')
  })

  test.each([['cuda', '.cu', '__global__'], ['ptx', '.ptx', '.visible .entry']])('%s: a file for each instance', async (emit, extension, text) => {
    const args = ['build', 'samples/gemm.ktl', '--emit', emit, '--type', 'T=f16,O=f16', '--order', 'A=mk,B=kn,D=mn', '--limit', '2']
    const { status, stderr } = await command([...args, '--out', out(emit), '--epilogue', 'relu(acc)'])
    expect([status, stderr.includes('the first 2 instances')]).toEqual([0, true])
    const files = readdirSync(out(emit))
    expect(files.length).toBe(2)
    for (const file of files) {
      expect(file).toMatch(new RegExp(`^ktl\\.gemm_sm100_ttt_.*\\${extension}$`))
      expect(readFileSync(path.join(out(emit), file), 'utf8')).toContain(text)
    }
  }) // prettier-ignore

  test('cubin', async () => {
    const { status, stdout } = await command([
      'build',
      'samples/dgemm.ktl',
      '--emit',
      'cubin',
      '--limit',
      '1',
      '--out',
      out('cubin'),
    ])
    expect(status).toBe(0)
    expect([...readFileSync(stdout.trim()).subarray(0, 4)]).toEqual([0x7f, 0x45, 0x4c, 0x46])
  })

  test('no partial outputs: one wrong file, and nothing is written', async () => {
    mkdirSync(out('partial'))
    const bad = out('bad.ktl')
    writeFileSync(bad, 'kernel f(A: f32[m]) -> D: f32[m] { D = B }\n')
    expect((await ktl(['build', 'samples/linear.ktl', bad, '--out', out('partial')])).status).toBe(1)
    expect(readdirSync(out('partial'))).toEqual([])
    const env = { KTL_NVCC: '/nonexistent' }
    expect(
      (
        await command(['build', 'samples/dgemm.ktl', '--emit', 'ptx', '--target', 'sm_80', '--out', out('partial')], {
          env,
        })
      ).status,
    ).toBe(3)
    expect(readdirSync(out('partial'))).toEqual([])
  })

  test('a folder that cannot be made: status 3', async () => {
    writeFileSync(out('file'), '')
    const { status, stderr } = await command(['build', 'samples/linear.ktl', '--out', out('file/below')])
    expect([status, stderr.includes('KTL6008')]).toEqual([3, true])
    expect((await command(['build', 'samples/linear.ktl', '--out', '/proc/no/folder'])).status).toBe(3)
  })

  test('two files of one name', async () => {
    const { status, stderr } = await command([
      'build',
      'samples/linear.ktl',
      'runtime/library/linear.ktl',
      '--out',
      out('twice'),
    ])
    expect([status, stderr.includes('linear.ts')]).toEqual([2, true])
  })
})

describe('inspect', () => {
  test.each([
    ['ast', /^program\n {2}items: kernel name=gemm/],
    ['tensor', /^program gemm\[l\?, m, k, n\] \{\n/],
    ['plan', /^plan ktl\.gemm_sm100_[^\n]*\n {2}target sm_100a/],
    ['tile', /^tile program gemm: /],
    ['cuda', /extern "C" __global__/],
    ['ptx', /\.target sm_100a/],
  ])('%s', async (stage, pattern) => {
    const { status, stdout, stderr } = await command(['inspect', 'samples/gemm.ktl', '--stage', stage])
    expect([status, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(pattern)
  })
  test('with an epilogue, by --json', async () => {
    const [record] = records(
      await command(['inspect', 'samples/gemm.ktl', '--stage', 'tensor', '--epilogue', 'relu(acc*2)', '--json']),
    )
    expect(record).toMatchObject({ schema: 1, kind: 'inspect', stage: 'tensor' })
    expect(record!['text']).toContain('relu')
  })
})

describe('selftest', () => {
  test('a part of the table', async () => {
    const ended = await ktl([
      'selftest',
      '--device',
      'virtual-sm100',
      '--filter',
      'tensor-core path',
      '--limit',
      '2',
      '--launches',
      '3',
    ])
    expect([ended.status, ended.stderr]).toEqual([0, ''])
    expect(ended.stdout).toContain('2 of 2 cases pass on virtual-sm100')
    expect(ended.stdout.match(/; 3 launches alike$/gm)).toHaveLength(2)
    expect(lastLine(ended)).toBe('PASS')
  })
  test('a device without the designs of the table runs its own', async () => {
    const ended = await command(['selftest', '--device', 'virtual-sm90', '--limit', '1', '--json'])
    expect(ended.status).toBe(0)
    expect(records(ended).at(-1)).toMatchObject({ kind: 'summary', pass: true, passed: 1, kernels: 1 })
    expect(records(ended)[0]!.kernelName).toContain('_sm90_')
  })
  test('launches that give other bytes than the first one fail', async () => {
    const device = await openDevice('virtual-sm90')
    const prepared = await prepareCase(device, (await deviceCases())[0]!)
    const kernel = prepared.kernel!
    let launched = 0
    const run = kernel.run.bind(kernel)
    // The second of three writes nothing.
    vi.spyOn(kernel, 'run').mockImplementation(async (...args) => (++launched === 2 ? null! : await run(...args)))
    const { pass, otherBytes, text } = await runCase(prepared, { launches: 3 })
    expect([pass, otherBytes, text]).toEqual([false, 1, 'max error 0; 1 of 3 launches gave other bytes than the first'])
    await device.close()
  })
})
