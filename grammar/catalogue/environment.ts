/** 60xx: what is missing on the machine, and files that are not what they should be. */
import { entry } from './entry.ts'

const HEADER = '// serializedWith: the bytes of an artifact whose header says so\n'

export const environment = {
  KTL6001: entry<{ readonly tried: readonly string[] }>({
    title: 'nvcc not found',
    explain:
      'Kernels are compiled by nvcc of the CUDA toolkit, 12.8 or later (13.0 for sm_103a). It is looked for in ' +
      'KTL_NVCC, in CUDA_HOME/bin, in PATH and in /usr/local/cuda/bin. No GPU and no driver are needed.',
    wrong: { call: "device.compileCuda('__global__ void f() {}')", environment: { KTL_NVCC: '/nonexistent/nvcc' } },
    right: { call: "device.compileCuda('__global__ void f() {}')" },
    word: ({ tried }) => ({
      message: 'nvcc was not found',
      notes: tried.map((place) => `tried ${place}`),
      help: 'install the CUDA toolkit (the package `cuda-nvcc` is enough), or set KTL_NVCC to the nvcc to use',
    }),
  }),
  KTL6002: entry<{ readonly message: string; readonly notes?: readonly string[]; readonly label?: string }>({
    title: 'nvcc refused the CUDA text',
    explain:
      'The compiler reported an error. In CUDA C++ of your own, correct it there; in text that ktl generated it is a ' +
      'mistake of ktl, and the notes show the line of `.ktl` it was generated from.',
    wrong: { call: "device.compileCuda('__global__ void f(int* x) { *x = y; }')" },
    right: { call: "device.compileCuda('__global__ void f(int* x, int y) { *x = y; }')" },
    word: ({ message, notes, label }) => ({
      message: `nvcc: ${message}`,
      ...(label && { label }),
      ...(notes?.length && { notes }),
    }),
  }),
  KTL6003: entry<{ readonly what: string; readonly reason: string; readonly output: string }>({
    title: 'nvcc did not finish',
    explain:
      'nvcc could not be started, ran out of time, was killed, or failed without naming a line. It needs a host ' +
      'compiler (g++) in PATH and space in the temporary directory.',
    wrong: { call: "device.compileCuda('__global__ void f() {}')", environment: { KTL_NVCC: '/bin/false' } },
    right: { call: "device.compileCuda('__global__ void f() {}')" },
    word: ({ what, reason, output }) => ({
      message: `${what} ${reason}`,
      ...(output && { notes: output.split('\n').slice(0, 12) }),
    }),
  }),
  KTL6004: entry<{ readonly tried: readonly { readonly path: string; readonly reason: string }[] }>({
    title: 'native addon not loaded',
    explain: 'Devices live in a native addon, ktl.node, built from native/ by node-gyp.',
    wrong: { call: "openDevice('virtual-sm100')", environment: { KTL_NATIVE: '/nonexistent/ktl.node' } },
    right: { call: "openDevice('virtual-sm100')" },
    word: ({ tried }) => ({
      message: 'the native addon could not be loaded',
      notes: tried.map(({ path, reason }) => `${path}: ${reason}`),
      help: 'run `node build.mjs` in the checkout (it needs g++, make and python3), or set KTL_NATIVE to a built ktl.node',
    }),
  }),
  KTL6005: entry<{ readonly device: string; readonly reason: string }>({
    title: 'no CUDA device',
    explain: 'Opening `cuda` or `cuda:N` needs an NVIDIA driver and a GPU that this version of ktl can drive.',
    wrong: { call: "openDevice('cuda:99')" },
    right: { call: "openDevice('virtual-sm100')" },
    word: ({ device, reason }) => ({
      message: `device \`${device}\` is not available: ${reason}`,
      help: 'use `virtual-sm100` (or `auto`): it runs the same kernels on the CPU',
    }),
  }),
  KTL6006: entry<{ readonly what: string; readonly expected: string; readonly got: string }>({
    title: 'wrong kind of module',
    explain: 'A virtual device executes PTX text. A cubin holds machine code, which only a GPU runs.',
    wrong: { call: 'device.loadModule(cubinBytes)' },
    right: { call: 'device.loadModule(ptxText)' },
    word: ({ what, expected, got }) => ({ message: `${what}: expected ${expected}, got ${got}` }),
  }),
  KTL6007: entry<{ readonly tried: readonly string[] }>({
    title: 'no disassembler',
    explain:
      'SASS is printed by nvdisasm or cuobjdump of the CUDA toolkit, which are packages of their own. They are looked for ' +
      'beside nvcc and in PATH.',
    wrong: {
      command: 'ktl inspect samples/dgemm.ktl --stage sass',
      environment: { KTL_NVCC: '/nonexistent/nvcc', PATH: '/nonexistent' },
    },
    right: { command: 'ktl inspect samples/dgemm.ktl --stage cuda' },
    word: ({ tried }) => ({
      message: 'no disassembler was found',
      notes: tried.map((place) => `tried ${place}`),
      help: 'install `nvdisasm` or `cuobjdump` of the CUDA toolkit; `--stage ptx` needs none',
    }),
  }),
  KTL6008: entry<{ readonly file: string; readonly reason: string }>({
    title: 'file cannot be written',
    explain: 'A result could not be stored. Files appear complete or not at all: those of this command are not there.',
    wrong: { command: 'ktl build samples/dgemm.ktl --emit ts --out /dev/null/generated' },
    right: { command: 'ktl build samples/dgemm.ktl --emit ts --out generated' },
    word: ({ file, reason }) => ({ message: `\`${file}\` cannot be written: ${reason}` }),
  }),
  KTL6010: entry<{ readonly reason: string }>({
    title: 'not a usable artifact',
    explain:
      'The file is not an artifact of ktl, is cut short, or its checksums do not match. Artifacts are never repaired: ' +
      'compile the kernel again.',
    wrong: { call: 'Artifact.deserialize(new Uint8Array(100))' },
    right: { call: 'Artifact.deserialize(artifact.serialize())' },
    word: ({ reason }) => ({ message: `not a usable artifact: ${reason}` }),
  }),
  KTL6011: entry<{ readonly expected: string; readonly got: string }>({
    title: 'unknown artifact format',
    explain: 'The artifact was written by a version of ktl with another file format.',
    wrong: { call: `${HEADER}Artifact.deserialize(serializedWith({ format: 2 }))` },
    right: { call: `${HEADER}Artifact.deserialize(serializedWith({ format: 1 }))` },
    word: ({ expected, got }) => ({
      message: `unknown artifact format ${got}, this version reads ${expected}`,
      help: 'compile the kernel again with this version of ktl',
    }),
  }),
  KTL6012: entry<{ readonly expected: string; readonly got: string }>({
    title: 'unknown artifact target',
    explain: 'The artifact was compiled for an architecture that this version of ktl does not know.',
    wrong: { call: `${HEADER}Artifact.deserialize(serializedWith({ targets: ['sm_999a'] }))` },
    right: { call: `${HEADER}Artifact.deserialize(serializedWith({ targets: ['sm_100a'] }))` },
    word: ({ expected, got }) => ({ message: `unknown artifact target ${got}, known are ${expected}` }),
  }),
}
