/** The launch: a parameter for everything that the text speaks of, and the grid, clusters and workspace that the program's tiles need. */
import { CUDA_COMPUTE_TYPE, DTYPES } from '../dtypes.ts'
import { mayLieOnDevice, type KernelLaunch, type ParamRule, type WorkspaceRegion } from '../ir/launch.ts'
import { opsOf, turnsOf, type TileProgram } from '../ir/pipe.ts'
import { copiedRows, copyRegion, repackedOf } from '../ir/repack.ts'
import type { TensorOperand } from '../ir/tensor.ts'
import { EXCHANGE, exchangeParams, waveOf } from '../targets/tensor_core/exchange.ts'
import { accumulatorsOf } from './memory.ts'
import { axesWithin, leavesOf, operandNamed, operandsOf, topological } from '../ir/walk.ts'
import { hasTail, stepOf } from '../space/domain.ts'

const keyOf = (rule: ParamRule): string => {
  switch (rule.kind) {
    case 'tensorMap':
      return `tensor map ${rule.name}`
    case 'pointer':
      return `pointer to ${rule.isConst ? 'const ' : ''}${rule.storage} ${rule.operand}`
    case 'stride':
    case 'carries':
      return `${rule.kind} of ${rule.operand} along ${rule.axis}`
    case 'extent':
      return `extent of ${rule.axis}`
    case 'scalar':
      return `scalar ${rule.type} ${rule.name}`
    case 'scalarAt':
      return `address of ${rule.storage} ${rule.name}`
    case 'tileGroup':
      return 'tile group'
    case 'workspace':
      return `workspace of ${rule.storage} ${rule.region}`
  }
}

/** Parameters that the text of a program reads. */
function neededBy(program: TileProgram): Set<string> {
  const { source, domain, reductions } = program
  const needed = new Set<string>(['tile group'])
  const summed = domain.loops.flatMap(({ axis, outer }) => [axis, ...outer])
  for (const axis of [
    domain.rows.axis,
    domain.columns.axis,
    ...summed,
    ...(domain.batch === null ? [] : [domain.batch]),
    ...axesWithin(source),
  ])
    needed.add(`extent of ${axis}`)
  const pointer = (name: string, isConst: boolean): void => {
    const operand = source.operands.find((one) => one.name === name) ?? source.scalars.find((one) => one.name === name)!
    needed.add(`pointer to ${isConst ? 'const ' : ''}${DTYPES[operand.dtype].cudaStorage} ${name}`)
    for (const axis of 'axes' in operand ? operand.axes : []) needed.add(`stride of ${name} along ${axis}`)
  }
  const optional = domain.batch !== null && source.axes.find(({ name }) => name === domain.batch)?.optional === true
  const carries = (name: string): void => {
    const operand = source.operands.find((one) => one.name === name)!
    if (optional && !operand.computed && operand.role === 'input' && operand.axes.includes(domain.batch!))
      needed.add(`carries of ${name} along ${domain.batch!}`)
  }
  for (const ragged of [domain.groups, domain.sums]) if (ragged) pointer(ragged.by, true)
  for (const op of opsOf(program)) {
    if (op.op === 'tma_load' || op.op === 'load_atoms' || op.op === 'tma_store' || op.op === 'fetch_stage')
      needed.add(`tensor map ${op.map}`)
    if (op.op === 'fetch_first' || op.op === 'fetch_next') needed.add(`tensor map ${op.fetch.map}`)
    if (op.op === 'gather' || op.op === 'copy_tile')
      for (const leaf of leavesOf(operandNamed(source, op.operand), source)) pointer(leaf.name, true)
    if (
      op.op === 'tma_load' ||
      op.op === 'load_atoms' ||
      op.op === 'fetch_first' ||
      op.op === 'fetch_stage' ||
      op.op === 'gather' ||
      op.op === 'copy_tile'
    )
      carries(op.operand)
    if (op.op === 'load_scales' || op.op === 'write_atoms')
      for (const leaf of leavesOf(operandNamed(source, op.operand), source)) pointer(leaf.name, true)
    if (
      op.op === 'load_ahead' ||
      op.op === 'copy_rows' ||
      (op.op === 'aux_load' && !op.fetched && !op.stage && !op.ahead)
    ) {
      const operand = source.operands.find(({ name }) => name === op.operand)
      for (const leaf of operand ? leavesOf(operand, source) : [op.operand])
        pointer(typeof leaf === 'string' ? leaf : leaf.name, true)
    }
    if (op.op === 'direct_store' && op.places)
      for (const axis of operandNamed(source, op.operand).axes) needed.add(`extent of ${axis}`)
    if (op.op === 'direct_store' || op.op === 'row_store') pointer(op.operand, false)
    if (op.op === 'quantise') pointer(op.form.scale!, false)
  }
  for (const { name, dtype, pointer: byPointer, fromEpilogue } of source.scalars) {
    const { compute, cudaStorage } = DTYPES[dtype]
    if (!byPointer) needed.add(`scalar ${compute === 'bool' ? 'i32' : compute} ${name}`)
    if (!byPointer && !fromEpilogue && mayLieOnDevice(dtype)) needed.add(`address of ${cudaStorage} ${name}`)
  }
  for (const { operand, type } of reductions) needed.add(`workspace of ${CUDA_COMPUTE_TYPE[type]} ${operand}`)
  if (domain.parts !== undefined) for (const rule of exchangeParams(domain)) needed.add(keyOf(rule))
  return needed
}

function* paramProblems(launch: KernelLaunch, needed: ReadonlySet<string>): Generator<string> {
  const given = new Set<string>()
  for (const rule of launch.params) {
    const key = keyOf(rule)
    if (given.has(key)) yield `launch: ${key} is passed twice`
    given.add(key)
    if (!needed.has(key)) yield `launch: nothing reads ${key}`
  }
  for (const key of needed) if (!given.has(key)) yield `launch: ${key} is not passed`
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

function* shapeProblems(program: TileProgram): Generator<string> {
  const { launch, cluster, domain, reductions, layout, source } = program
  const { shape, fallback, splits, pair } = cluster
  const expect = function* (what: string, got: unknown, wanted: unknown): Generator<string> {
    if (!same(got, wanted)) yield `launch: ${what} is ${JSON.stringify(got)}, not ${JSON.stringify(wanted)}`
  }
  if (cluster.size !== shape[0] * shape[1] * splits)
    yield `cluster: ${cluster.size} CTAs are not ${shape.join(' x ')}${splits > 1 ? ` x ${splits}` : ''}`
  if (shape[0] % pair !== 0) yield `cluster: ${shape[0]} CTAs along m are no whole pairs`
  if (fallback && (shape[0] % fallback[0] !== 0 || shape[1] % fallback[1] !== 0 || fallback[0] % pair !== 0))
    yield `cluster: ${fallback.join(' x ')} CTAs do not divide ${shape.join(' x ')}`
  yield* expect('the cluster', launch.cluster, [cluster.size, 1, 1])
  yield* expect(
    'the fallback cluster',
    launch.fallbackCluster,
    fallback ? [fallback[0] * fallback[1], 1, 1] : undefined,
  )
  const { grid } = launch
  if (grid.kind !== 'persistent') yield 'launch: the grid is not that of a program'
  else {
    const isPacked = domain.groups?.form === 'packed'
    const batch = domain.batch === null || isPacked ? [] : [{ axis: domain.batch, extent: 1 }]
    const side = (axis: string, step: number, i: 0 | 1, along: 'm' | 'n') => ({
      axis,
      extent: step * shape[i],
      ...(isPacked && domain.groups!.along === along && { groups: domain.groups!.group }),
    })
    const { rows, columns } = domain
    const tiles = [side(rows.axis, rows.extent, 0, 'm'), side(columns.axis, stepOf(domain), 1, 'n'), ...batch]
    yield* expect('the blocks of the grid', grid.tiles, tiles)
    yield* expect('parts', grid.parts, domain.parts)
    yield* expect('blocks of a wave', grid.wave, waveBlocks(program))
    yield* expect('blocks that share items', grid.share, domain.share)
    yield* expect('dynamic', grid.dynamic, domain.walk === 'dynamic')
    if (grid.perSm !== undefined && (cluster.size > 1 || grid.perSm * (launch.sharedMemBytes + 1024) > 233_472))
      yield `launch: ${grid.perSm} CTAs do not share an SM`
  }
  const regions = reductions.map(({ operand, type, keepsM, keepsN }) => ({
    name: operand,
    elementBytes: type === 'f64' ? 8 : 4,
    extents: [
      ...(domain.batch === null ? [] : [{ axis: domain.batch, per: 1 }]),
      { axis: domain.rows.axis, per: keepsM ? 1 : layout.rowsPerWarp },
      { axis: domain.columns.axis, per: keepsN ? 1 : layout.columns },
    ],
  }))
  const repacked = repackedOf(source)
  const all = [...regions, ...repacked.map(copyRegion), ...exchanged(program)]
  yield* expect('the workspace', launch.workspace, all.length > 0 ? all : undefined)
  if ((launch.before !== undefined) !== repacked.length > 0)
    yield 'launch: a kernel before it copies operands to aligned rows'
  if (launch.before) yield* repackProblems(program, launch.before, repacked)
  if ((launch.next !== undefined) !== regions.length > 0)
    yield 'launch: a second kernel combines the results of reductions'
  if (launch.next) yield* combineProblems(program, launch.next)
  for (const op of opsOf(program))
    if (op.op === 'prefetch_maps')
      for (const map of op.maps)
        if (op.maps.filter((name) => name === map).length > 1) yield `prefetch_maps: ${map} twice`
}

/** Blocks of a wave that is not cut into parts of k; undefined: all are, or none. */
function waveBlocks({ target, domain, cluster, launch: { grid } }: TileProgram): number | undefined {
  if (!hasTail(domain) || grid.kind !== 'persistent') return undefined
  return waveOf(target, cluster.size, grid.perSm)
}

/** What parts of k leave for the last one, and their counts: for each CTA of each block of tiles. */
function exchanged(program: TileProgram): readonly WorkspaceRegion[] {
  const { domain, cluster, tmem, roles, launch } = program
  if (domain.parts === undefined || launch.grid.kind !== 'persistent') return []
  const extents = launch.grid.tiles.map(({ axis, extent, ...counted }) => ({ axis, per: extent, ...counted }))
  const wave = waveBlocks(program)
  const most = wave === undefined ? {} : { most: wave - 1 }
  const threads = (roles[0]!.warps * 32) / turnsOf(program)
  const words = ((tmem?.columnsPerAccumulator ?? accumulatorsOf(program)) / cluster.splits) * threads
  return [
    { name: EXCHANGE.sums, elementBytes: cluster.size * domain.parts * words * 4, extents, ...most },
    { name: EXCHANGE.counts, elementBytes: cluster.size * 4, extents, ...most, zeroed: true },
  ]
}

/** The kernel before it: threads that take turns over pieces of 16 bytes. */
function* repackProblems(
  { source, domain, launch }: TileProgram,
  before: KernelLaunch,
  repacked: readonly TensorOperand[],
): Generator<string> {
  const needed = new Set<string>()
  const optional = domain.batch !== null && source.axes.find(({ name }) => name === domain.batch)?.optional === true
  for (const { name, dtype, axes } of repacked) {
    const { cudaStorage } = DTYPES[dtype]
    needed.add(`workspace of ${cudaStorage} ${name}`).add(`pointer to const ${cudaStorage} ${name}`)
    for (const axis of axes) needed.add(`stride of ${name} along ${axis}`).add(`extent of ${axis}`)
    if (optional && axes.includes(domain.batch!)) needed.add(`carries of ${name} along ${domain.batch!}`)
  }
  yield* paramProblems(before, needed)
  if (!same(before.workspace, launch.workspace)) yield 'launch: the kernel that copies has the same workspace'
  if (!same(before.cluster, [1, 1, 1]) || before.fallbackCluster) yield 'launch: the kernel that copies has no clusters'
  if (before.sharedMemBytes !== 0 || before.next || before.before)
    yield 'launch: the kernel that copies needs no shared memory and no others'
  const { grid } = before
  const isForRows = grid.kind === 'rows' && same(grid.copied, repacked.map(copiedRows))
  if (!isForRows || grid.perCta !== before.threads || grid.limit < 1)
    yield 'launch: the kernel that copies has threads for the operands that it copies'
  if (before.threads % 32 !== 0 || before.threads > 1024) yield `launch: ${before.threads} threads that copy`
}

/** The second kernel: a warp for each element of an output. */
function* combineProblems(program: TileProgram, next: KernelLaunch): Generator<string> {
  const { source, domain, reductions, launch } = program
  const needed = new Set<string>()
  for (const axis of [domain.rows.axis, domain.columns.axis, ...(domain.batch === null ? [] : [domain.batch])])
    needed.add(`extent of ${axis}`)
  for (const { operand: name, type } of reductions) {
    const { dtype, axes } = source.operands.find((one) => one.name === name)!
    needed.add(`workspace of ${CUDA_COMPUTE_TYPE[type]} ${name}`)
    needed.add(`pointer to ${DTYPES[dtype].cudaStorage} ${name}`)
    for (const axis of axes) needed.add(`stride of ${name} along ${axis}`)
  }
  yield* paramProblems(next, needed)
  if (!same(next.workspace, launch.workspace)) yield 'launch: both kernels have one workspace'
  if (!same(next.cluster, [1, 1, 1]) || next.fallbackCluster) yield 'launch: the second kernel has no clusters'
  if (next.sharedMemBytes !== 0 || next.next) yield 'launch: the second kernel needs no shared memory and no third'
  const { grid } = next
  const outputs = reductions.map(({ operand }) => operand)
  if (grid.kind !== 'elements' || !same(grid.outputs, outputs) || grid.perCta !== next.threads / 32 || grid.limit < 1)
    yield 'launch: the second kernel has a warp for each element of the outputs'
  if (next.threads % 32 !== 0 || next.threads > 1024) yield `launch: ${next.threads} threads of the second kernel`
}

/** Scalars and operands that expressions read exist. */
function* leafProblems(program: TileProgram): Generator<string> {
  const values = [
    ...[...opsOf(program)].flatMap((op) => (op.op === 'compute' ? op.outputs.map(({ value }) => value) : [])),
    ...program.source.operands.flatMap(({ computed }) => computed ?? []),
  ]
  for (const name of operandsOf(values))
    if (!program.source.operands.some((operand) => operand.name === name && operand.role === 'input'))
      yield `an expression reads ${name}, which is no input`
  for (const node of topological(values))
    if (node.kind === 'scalar' && !program.source.scalars.some(({ name }) => name === node.operand))
      yield `an expression reads ${node.operand}, which is no scalar`
}

/** Problems in words. */
export const launchProblems = (program: TileProgram): string[] => [
  ...paramProblems(program.launch, neededBy(program)),
  ...shapeProblems(program),
  ...leafProblems(program),
]
