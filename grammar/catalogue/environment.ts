/** 60xx: what is missing on the machine, and files that are not what they should be. */
import { entry } from './entry.ts'

const FOLDER = '// folderOfVersion: a folder with the manifest of a version of ktl, without the files that it lists\n'
const HEADER = '// serializedWith: the bytes of an artifact whose header says so\n'

/** What brings the native addon to a machine. */
export function fixOfAddon(unsupported: string | null, install: string | null): string {
  if (unsupported !== null)
    return 'use Linux on x86-64 or arm64 (on Windows: WSL 2) to run kernels; `ktl check`, `fmt`, `inspect` and `build --emit ts,cuda` need no device'
  const build = '`npx ktl build-addon` (it needs g++, make and python3), or set KTL_NATIVE to a built ktl.node'
  if (install === null) return `build it: ${build}`
  return `run \`npm install ${install}\`, which an install without optional dependencies leaves out, or build it: ${build}`
}

export const environment = {
  KTL6001: entry<{
    readonly tried: readonly string[]
    /** What KTL_NVCC names, what that is, and an nvcc within it; null: it is not set. */
    readonly setting: { readonly place: string; readonly reason: string; readonly within: string | null } | null
  }>({
    title: 'nvcc not found',
    explain:
      'Kernels are compiled by nvcc of the CUDA toolkit, 12.8 or later (13.0 for sm_103a). It is looked for in ' +
      'KTL_NVCC, in CUDA_HOME/bin, in PATH and in /usr/local/cuda/bin. KTL_NVCC names the program itself, not its folder. ' +
      'No GPU and no driver are needed.',
    wrong: { call: "device.compileCuda('__global__ void f() {}')", environment: { KTL_NVCC: '/nonexistent/nvcc' } },
    right: { call: "device.compileCuda('__global__ void f() {}')" },
    word: ({ tried, setting }) => ({
      message: setting
        ? `nvcc was not found: KTL_NVCC is \`${setting.place}\`, ${setting.reason}`
        : 'nvcc was not found',
      notes: tried.map((place) => `tried ${place}`),
      help: setting?.within
        ? `set KTL_NVCC to \`${setting.within}\``
        : 'install the CUDA toolkit (the package `cuda-nvcc` is enough), or set KTL_NVCC to the nvcc to use; kernels of ' +
          '`ktl build --aot` need none',
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
      'nvcc could not be started, was killed, failed without naming a line, or wrote something that is no code. It needs a host ' +
      'compiler (g++) in PATH and space in the temporary directory.',
    wrong: { call: "device.compileCuda('__global__ void f() {}')", environment: { KTL_NVCC: '/bin/false' } },
    right: { call: "device.compileCuda('__global__ void f() {}')" },
    word: ({ what, reason, output }) => ({
      message: `${what} ${reason}`,
      ...(output && { notes: output.split('\n').slice(0, 12) }),
    }),
  }),
  KTL6004: entry<{
    readonly tried: readonly { readonly path: string; readonly reason: string }[]
    /** Why no machine of this kind has one; null: there is one for it, or it can be built. */
    readonly unsupported: string | null
    /** `@ktl/linux-x64-gnu@0.1.0`: the package that has it for this machine; null: none does. */
    readonly install: string | null
  }>({
    title: 'native addon not loaded',
    explain:
      'Devices live in a native addon, ktl.node. For x86-64 Linux with glibc 2.28 or later it comes with an optional dependency, ' +
      '`@ktl/linux-x64-gnu`; on other systems than Windows (x86-64, arm64) `ktl build-addon` builds it from the sources in the package. ' +
      'Elsewhere ktl checks, formats and generates code, and runs nothing.',
    wrong: { call: "openDevice('virtual-sm100')", environment: { KTL_NATIVE: '/nonexistent/ktl.node' } },
    right: { call: "openDevice('virtual-sm100')" },
    word: ({ tried, unsupported, install }) => ({
      message: unsupported ? `the native addon is not there: ${unsupported}` : 'the native addon could not be loaded',
      notes: tried.map(({ path, reason }) => `${path}: ${reason}`),
      help: fixOfAddon(unsupported, install),
    }),
  }),
  KTL6005: entry<{ readonly device: string; readonly reason: string }>({
    title: 'no CUDA device',
    explain:
      'Opening `cuda` or `cuda:N` needs an NVIDIA driver for CUDA 12.4 or later (550), found as libcuda.so.1 or where ' +
      'KTL_CUDA_DRIVER says, and a GPU of compute capability 8.0 or later. `ktl doctor` says what is there.',
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
  KTL6009: entry<{ readonly what: string; readonly ms: number; readonly output: string }>({
    title: 'nvcc ran out of time',
    explain:
      'Every run of nvcc has a limit, 5 minutes by default: KTL_NVCC_TIMEOUT in seconds, or `timeoutMs` of `compileCuda` and ' +
      '`kernel.compile`. It is killed then, with everything that it started, and nothing is kept of it.',
    wrong: { call: "device.compileCuda('__global__ void in_no_time() {}', { timeoutMs: 1 })" },
    right: { call: "device.compileCuda('__global__ void in_time() {}', { timeoutMs: 600_000 })" },
    word: ({ what, ms, output }) => ({
      message: `${what} was killed after ${ms / 1000} s`,
      ...(output && { notes: output.split('\n').slice(0, 12) }),
      help: 'set KTL_NVCC_TIMEOUT to more seconds, or look at what else the machine is doing',
    }),
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
  KTL6013: entry<{ readonly reason: string; readonly missing: readonly string[]; readonly output: string }>({
    title: 'native addon not built',
    explain:
      'Where no package has the native addon, `ktl build-addon` builds it from the C++ sources in the package of ktl, with node-gyp. ' +
      'That takes g++ 12 or later (or clang), make, python3, a place in the package that can be written, and a minute or two.',
    wrong: { command: 'ktl build-addon', environment: { CXX: '/nonexistent/g++' } },
    right: { command: 'ktl build-addon --dry-run' },
    word: ({ reason, missing, output }) => ({
      message: `the native addon was not built: ${reason}`,
      ...(output && { notes: output.split('\n').slice(0, 12) }),
      help:
        missing.length > 0
          ? `apt-get install ${missing.join(' ')}   (dnf: gcc-c++ make python3; macOS: xcode-select --install), or set KTL_NATIVE to a ktl.node built elsewhere`
          : 'correct what the first error names, or set KTL_NATIVE to a ktl.node built elsewhere',
    }),
  }),
  KTL6014: entry<{ readonly device: string; readonly how: string; readonly help: string; readonly output?: string }>({
    title: 'an isolated device ended',
    explain:
      'A virtual device that is opened with `isolate` runs in a process of its own. When that process crashes, wants more memory than ' +
      '`isolate.memoryBytes`, or takes longer for one call than `isolate.timeoutMs`, it is ended: this process goes on, and every ' +
      'call of that device, those under way too, gives this error. Its memory is gone; open another device.',
    wrong: { call: "openDevice('virtual-sm100', { isolate: { timeoutMs: 1 } })" },
    right: { call: "await (await openDevice('virtual-sm100', { isolate: { timeoutMs: 60_000 } })).close()" },
    word: ({ device, how, help, output }) => ({
      message: `the process of the isolated device \`${device}\` ended: ${how}`,
      ...(output && { notes: output.split('\n').slice(-12) }),
      help,
    }),
  }),
  KTL6060: entry<{ readonly folder: string; readonly reason: string }>({
    title: 'not a folder of artifacts',
    explain:
      '`ktl build --aot` writes artifacts and a `manifest.json` that lists them with their checksums. The manifest is ' +
      'missing, is not of that form, or names other files.',
    wrong: { call: "registerArtifacts('samples')" },
    right: {
      call:
        "buildArtifacts(program.kernels.double.getInstances(), 'built', { limit: 1 }).then(() => " +
        "registerArtifacts('built')).then(({ unregister }) => unregister())",
    },
    word: ({ folder, reason }) => ({
      message: `\`${folder}\` is not a folder of artifacts: ${reason}`,
      help: 'make one with `ktl build FILE… --aot FOLDER`',
    }),
  }),
  KTL6061: entry<{ readonly folder: string; readonly expected: string; readonly got: string }>({
    title: 'artifacts of another version',
    explain:
      'The name of a kernel determines its CUDA for one version of ktl, so artifacts are served and added to by the ' +
      'version that made them.',
    wrong: { call: `${FOLDER}registerArtifacts(folderOfVersion('0.0.0'))` },
    right: { call: `${FOLDER}registerArtifacts(folderOfVersion(KTL_VERSION)).then(({ unregister }) => unregister())` },
    word: ({ folder, expected, got }) => ({
      message: `the artifacts in \`${folder}\` were made by ${got}, this is ${expected}`,
      help: 'build them again in an empty folder',
    }),
  }),
  KTL6062: entry<{ readonly file: string; readonly reason: string }>({
    title: 'damaged artifact folder',
    explain:
      'A file that the manifest lists is missing or is not the one it lists. `ktl build --aot` with the same arguments ' +
      'makes it again.',
    wrong: {
      call: `${FOLDER}ArtifactFolder.open(folderOfVersion(KTL_VERSION, 'ktl.lost')).then((folder) => folder.load('ktl.lost', 'sm_100a'))`,
    },
    right: {
      call: `${FOLDER}ArtifactFolder.open(folderOfVersion(KTL_VERSION)).then(({ manifest }) => manifest.artifacts.length)`,
    },
    word: ({ file, reason }) => ({ message: `\`${file}\` cannot be used: ${reason}` }),
  }),
  KTL6070: entry<{ readonly what: string; readonly reason: string }>({
    title: 'malformed array file',
    explain: 'The bytes are not what the format (.npy, safetensors) prescribes: nothing of them is used.',
    wrong: { call: 'readNpy(writeNpy([[1, 2]]).subarray(0, 130))' },
    right: { call: 'readNpy(writeNpy([[1, 2]]))' },
    word: ({ what, reason }) => ({ message: `${what} is malformed: ${reason}` }),
  }),
  KTL6071: entry<{ readonly what: string; readonly expected: string; readonly got: string }>({
    title: 'dtype that a file format or ktl lacks',
    explain:
      'ktl has no complex numbers; integers of 16 and 64 bits are read as i32 where they fit. What NumPy and safetensors have no dtype ' +
      'for is written as integers with its name. `readSafetensors(bytes, { names })` takes the tensors that are wanted.',
    wrong: {
      call: String.raw`readNpy(Uint8Array.from("\x93NUMPY\x01\x00\x35\x00{'descr': '<c8', 'fortran_order': False, 'shape': ()}", (c) => c.charCodeAt(0)))`,
    },
    right: { call: "writeNpy({ data: Uint16Array.of(0x3f80), shape: [1], dtype: 'bf16' })" },
    word: ({ what, expected, got }) => ({ message: `${what} cannot be of ${got}, only of ${expected}` }),
  }),
  KTL6072: entry<{ readonly file: string; readonly reason: string }>({
    title: 'file cannot be read',
    explain:
      'The file does not exist, may not be read, or is a folder or a device. The error has the one of the system as its `cause`.',
    wrong: { call: "loadNpy('/nonexistent/x.npy')" },
    right: { call: "loadKtl('samples/gemm.ktl')" },
    word: ({ file, reason }) => ({ message: `\`${file}\` cannot be read: ${reason}` }),
  }),
  KTL6050: entry<{ readonly file: string; readonly reason: string }>({
    title: 'file of tuned kernels cannot be used',
    severity: 'warning',
    explain:
      'What `ktl bench --tune` found is kept in one JSON file (KTL_TUNING_FILE, else tuning.json in the folder of settings). A ' +
      'damaged one is ignored, so kernels stand in the order of the cost model, and the next result replaces it.',
    wrong: { command: 'ktl bench --list', environment: { KTL_TUNING_FILE: 'samples/gemm.ktl' } },
    right: { command: 'ktl bench --list', environment: { KTL_TUNING_FILE: '/nonexistent/tuning.json' } },
    word: ({ file, reason }) => ({
      message: `\`${file}\` is ignored: ${reason}`,
      help: '`ktl bench --clear` removes it',
    }),
  }),
  KTL6030: entry<{ readonly message: string }>({
    title: 'GPU lost',
    explain:
      'A kernel failed on the GPU (an illegal address, say), and the driver refuses everything that the process asks of ' +
      'that GPU from then on. The message names the kernels that had been launched since the host last waited. Run the ' +
      'same call on a virtual device: it finds the access, and names its line. The process must be started again.',
    word: ({ message }) => ({ message }),
  }),
  KTL6031: entry<{ readonly message: string }>({
    title: 'driver refused a call',
    explain: 'The CUDA driver refused one call, for the reason it gives; the device can still be used.',
    word: ({ message }) => ({ message }),
  }),
  KTL6032: entry<{ readonly message: string }>({
    title: 'out of device memory',
    explain:
      'The GPU has not enough free memory. Free tensors that are not needed any more (`tensor.free()`, `using`).',
    word: ({ message }) => ({ message: `out of memory: ${message}` }),
  }),
  KTL6033: entry<{ readonly message: string }>({
    title: 'module refused by the driver',
    explain: 'The driver cannot load the image: machine code for another GPU, or PTX that it does not compile.',
    word: ({ message }) => ({ message }),
  }),
  KTL6034: entry<{ readonly what: string }>({
    title: 'not possible in a graph',
    explain:
      'While `device.capture` records a stream, only launches and `memset` can be enqueued on it, synchronously. ' +
      'Copies, events, and launches whose result is waited for, belong before or after the graph.',
    wrong: { call: 'device.capture(async () => {})' },
    right: { call: 'device.capture(() => device.memset(address, 0, 16)).free()' },
    word: ({ what }) => ({
      message: `a graph cannot hold ${what}`,
      help: 'launch with `kernel.launch`, `prepared.launch` or `fn.enqueue`, and copy outside of `capture`',
    }),
  }),
}
