/** What a kernel takes of the SM, as `ptxas -v` reports it. */
export interface KernelResources {
  readonly entry: string
  readonly registers: number
  readonly spillStoreBytes: number
  readonly spillLoadBytes: number
  readonly stackBytes: number
  readonly staticSharedBytes: number
  readonly barriers: number
}

/** Resources of every kernel in ptxas' report, in its order. */
export function parseResources(report: string): KernelResources[] {
  const kernels: KernelResources[] = []
  // One section for each kernel; those of device functions come before it and are not kernels.
  for (const section of report.split(/Compiling entry function '/).slice(1)) {
    const number = (pattern: RegExp): number => Number(pattern.exec(section)?.[1] ?? 0)
    kernels.push({
      entry: section.slice(0, section.indexOf("'")),
      registers: number(/Used (\d+) registers/),
      spillStoreBytes: number(/(\d+) bytes spill stores/),
      spillLoadBytes: number(/(\d+) bytes spill loads/),
      stackBytes: number(/(\d+) bytes stack frame/),
      staticSharedBytes: number(/(\d+) bytes smem/),
      barriers: number(/used (\d+) barriers/),
    })
  }
  return kernels
}
