/** From a launch recipe and the tensors of one call to the bytes and the grid that the kernel is launched with. */
import {
  WORKSPACE_ALIGNMENT,
  type GridRule,
  type LaunchRecipe,
  type ParamRule,
  type TensorMapRule,
} from '../../codegen/cuda/generated.ts'
import { cutOf, itemsOf, SYSTEM_BYTES } from '../../compiler/ir/launch.ts'
import { copyPitches, threadsOfRow } from '../../compiler/ir/repack.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { countedClusters } from '../discovery/ranking/machine.ts'
import { ktlError } from '../errors/fail.ts'
import type { PlannedLaunch } from '../modules/grid.ts'
import { elementCount } from '../tensors/layout.ts'
import { createTensorMap, TENSOR_MAP_BYTES } from '../tensors/tensor_map.ts'

/** A tensor as an operand: what each of its dimensions is called. An axis left out at the call is not in `axes`. */
export interface BoundOperand {
  readonly tensor: {
    readonly pointer: bigint
    readonly dtype: DTypeName
    readonly shape: readonly number[]
    /** In elements. */
    readonly strides: readonly number[]
  }
  readonly axes: readonly string[]
}

export interface LaunchBindings {
  /** Scalars that lie on the device among them. */
  readonly operands: Readonly<Record<string, BoundOperand>>
  /** Of every axis present at the call; the others count as 1. */
  readonly extents: Readonly<Record<string, number>>
  readonly scalars: Readonly<Record<string, number>>
  /** Tiles walked along m before n advances. Default: 1. */
  readonly tileGroup?: number
  /** Address of at least `workspaceBytes`; needed where that is not 0. */
  readonly workspace?: bigint
  /** Address of at least `zeroedBytes` zeros, which the launches leave behind as zeros; needed where that is not 0. */
  readonly zeroed?: bigint
}

/** What a device has room for at once. */
export interface Room {
  readonly smCount: number
  /** Of devices that have less than the kernel's target; 0 or absent: nobody says. */
  readonly sharedBytesPerSm?: number
  /** Clusters of 2, 4 and 8 CTAs, where it says so: GPCs have SMs left over. */
  readonly clusters?: readonly number[]
}

/** Everything `DeviceFunction.launch` needs; null: there is nothing to compute (an output without elements). */
export function planLaunch(recipe: LaunchRecipe, bindings: LaunchBindings, device: Room): PlannedLaunch | null {
  const ctas = gridSize(recipe, bindings, device)
  if (ctas === 0) return null
  return {
    entry: recipe.entry,
    grid: [ctas, 1, 1],
    block: [recipe.threads, 1, 1],
    cluster: recipe.fallbackCluster ?? recipe.cluster,
    ...(recipe.fallbackCluster && { preferredCluster: recipe.cluster }),
    sharedMemBytes: recipe.sharedMemBytes,
    ...(partsMeet(recipe, bindings, ctas) && { cooperative: true }),
    ...sharedOf(recipe, ctas, device),
    params: packParameters(recipe, bindings),
  }
}

/**
 * Copies that TMA does not make wait in L1, which has what shared memory leaves. Drivers leave room for as many CTAs as fit an SM; of a small grid
 * there are fewer, and 40000x26x1300 in tiles of 128x32x32 takes 81 us on an H200 where L1 has 28 KB, 52 where it has 124.
 */
function sharedOf({ grid, cluster, sharedMemBytes }: LaunchRecipe, ctas: number, room: Room): { sharedPerSm?: number } {
  if (grid.kind !== 'persistent' || volumeOf(cluster) > 1 || sharedMemBytes === 0) return {}
  const beside = Math.ceil(ctas / room.smCount)
  return beside < besideOf(grid, sharedMemBytes, room) ? { sharedPerSm: beside * (sharedMemBytes + SYSTEM_BYTES) } : {}
}

/** Do all parts of k run at once, and wait for each other? As the kernel itself decides it. */
function partsMeet({ grid, cluster }: LaunchRecipe, bindings: LaunchBindings, ctas: number): boolean {
  if (grid.kind !== 'persistent' || !grid.meets) return false
  const blocks = blocksOf(grid, bindings)
  const items = cutOf(blocks, grid.wave) * grid.parts! * volumeOf(cluster)
  return items > 0 && items <= ctas
}

/** The launches of a call in stream order, without those that have nothing to compute. */
export function planLaunches(recipe: LaunchRecipe, bindings: LaunchBindings, device: Room): PlannedLaunch[] {
  const { before, next } = recipe
  const first = before ? planLaunches(before, bindings, device) : []
  const own = planLaunch(recipe, bindings, device)
  return [
    ...first,
    // A launch that makes sure of all CTAs at once begins when the one before has ended.
    ...(own ? [{ ...own, ...(first.length > 0 && !own.cooperative && { programmatic: true }) }] : []),
    ...(next ? planLaunches(next, bindings, device) : []),
  ]
}

/** Where each region of the workspace, or of those that are zeroed, starts, and the bytes of all of them. */
function workspaceLayout(
  recipe: LaunchRecipe,
  bindings: Pick<LaunchBindings, 'extents'>,
  which: 'workspace' | 'zeroed',
): { starts: Map<string, number>; bytes: number } {
  const starts = new Map<string, number>()
  let bytes = 0
  for (const { name, elementBytes, extents, most = Infinity, zeroed } of recipe.workspace ?? []) {
    if ((zeroed === true) !== (which === 'zeroed')) continue
    starts.set(name, bytes)
    // Nothing has bytes, too: a tensor map needs an address, even where it is read outside of its tensor only.
    const count = ({ axis, per, groups }: (typeof extents)[number]): number =>
      Math.max(1, Math.ceil(extentOf(bindings, axis) / per) + (groups === undefined ? 0 : extentOf(bindings, groups)))
    const elements = Math.min(
      extents.reduce((n, extent) => n * count(extent), 1),
      most,
    )
    bytes += Math.ceil((elements * elementBytes) / WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
  }
  return { starts, bytes }
}

/** Scratch memory that a call needs. */
export const workspaceBytes = (recipe: LaunchRecipe, bindings: Pick<LaunchBindings, 'extents'>): number =>
  workspaceLayout(recipe, bindings, 'workspace').bytes

/** Memory of zeros beside it, which the runtime keeps for each stream. */
export const zeroedBytes = (recipe: LaunchRecipe, bindings: Pick<LaunchBindings, 'extents'>): number =>
  workspaceLayout(recipe, bindings, 'zeroed').bytes

/** CTAs of the launch, a multiple of the cluster; 0 when an extent of the output is 0. */
export function gridSize(recipe: LaunchRecipe, bindings: LaunchBindings, room: Room): number {
  const perCluster = volumeOf(recipe.cluster)
  const { grid } = recipe
  if (grid.kind === 'elements') return ctasOf(grid, bindings)
  if (grid.kind === 'rows') return ctasOfRows(grid, bindings)
  if (grid.kind === 'points') {
    const points = grid.axes.reduce((n, axis) => n * extentOf(bindings, axis), 1)
    return Math.min(grid.limit, Math.ceil(points / grid.perCta))
  }
  const resident = residentOf(recipe, grid, room)
  const clusters = itemsOf(grid, blocksOf(grid, bindings))
  return (grid.dynamic ? clusters : Math.min(clusters, resident)) * perCluster
}

const volumeOf = (extents: readonly number[]): number => extents.reduce((product, extent) => product * extent, 1)

type PersistentGrid = Extract<GridRule, { kind: 'persistent' }>

const blocksOf = ({ tiles }: PersistentGrid, bindings: Pick<LaunchBindings, 'extents'>): number =>
  tiles.reduce((n, { axis, extent, groups }) => {
    const more = groups === undefined ? 0 : extentOf(bindings, groups)
    return n * (Math.ceil(extentOf(bindings, axis) / extent) + more)
  }, 1)

/**
 * Clusters that run at once: one more would begin when the first have done all of their tiles, and double the time. Fallback clusters use the SMs
 * that preferred ones leave.
 */
function residentOf(
  { cluster, fallbackCluster, sharedMemBytes }: LaunchRecipe,
  grid: PersistentGrid,
  room: Room,
): number {
  const size = volumeOf(cluster)
  const counted = fallbackCluster ? undefined : countedClusters(room.clusters ?? [], size)
  const beside = besideOf(grid, sharedMemBytes, room)
  return Math.max(1, Math.min(counted ?? Infinity, Math.floor((room.smCount * beside) / size)))
}

/** CTAs that an SM has room for. */
function besideOf({ perSm = 1 }: PersistentGrid, sharedMemBytes: number, { sharedBytesPerSm = 0 }: Room): number {
  const fit = sharedBytesPerSm > 0 ? Math.floor(sharedBytesPerSm / (sharedMemBytes + SYSTEM_BYTES)) : perSm
  return Math.max(1, Math.min(perSm, fit))
}

function ctasOf(rule: GridRule & { kind: 'elements' }, bindings: LaunchBindings): number {
  const elements = rule.outputs.map((name) => elementCount(operandOf(bindings, name).tensor.shape))
  return Math.min(rule.limit, Math.ceil(Math.max(...elements) / rule.perCta))
}

function ctasOfRows({ copied, perCta, limit }: GridRule & { kind: 'rows' }, bindings: LaunchBindings): number {
  const threads = copied.reduce((sum, { operand, inner, piece }) => {
    const length = Math.max(1, extentOf(bindings, inner))
    const rows = elementCount(operandOf(bindings, operand).tensor.shape) / length
    return sum + rows * threadsOfRow(Math.ceil(length / piece))
  }, 0)
  return Math.min(limit, Math.ceil(threads / perCta))
}

/** The parameter block, each parameter at its natural alignment as the C rules of kernel signatures have it. */
export function packParameters(recipe: LaunchRecipe, bindings: LaunchBindings): Uint8Array {
  const { offsets, bytes } = paramLayout(recipe)
  const block = new Uint8Array(bytes)
  recipe.params.forEach((rule, i) => block.set(bytesOfRule(rule, bindings, recipe), offsets[i]))
  return block
}

/**
 * Where the address of each operand lies in the parameter block: in pointers, and in the first eight bytes of tensor maps. All
 * that changes when tensors are exchanged for others of the same layout. null: maps of it begin elsewhere than the tensor.
 */
export function addressOffsets(recipe: LaunchRecipe): ReadonlyMap<string, readonly number[] | null> {
  return paramLayout(recipe).addresses
}

interface ParamLayout {
  readonly offsets: readonly number[]
  readonly bytes: number
  readonly addresses: ReadonlyMap<string, readonly number[] | null>
}

const layouts = new WeakMap<LaunchRecipe, ParamLayout>()

function paramLayout(recipe: LaunchRecipe): ParamLayout {
  const known = layouts.get(recipe)
  if (known) return known
  let end = 0
  const offsets = recipe.params.map((rule) => {
    const bytes = sizeOfRule(rule)
    // CUtensorMap is declared with an alignment of 64; scalars are aligned to their size.
    const align = rule.kind === 'tensorMap' ? 64 : bytes
    const offset = Math.ceil(end / align) * align
    end = offset + bytes
    return offset
  })
  const addresses = new Map<string, number[] | null>()
  recipe.params.forEach((rule, i) => {
    if (rule.kind !== 'tensorMap' && rule.kind !== 'pointer' && rule.kind !== 'scalarAt') return
    if (rule.kind === 'tensorMap' && rule.copy) return
    const name = rule.kind === 'scalarAt' ? rule.name : rule.operand
    const before = addresses.get(name)
    const isElsewhere = rule.kind === 'tensorMap' && rule.clipped?.cut === 'behind'
    addresses.set(name, isElsewhere || before === null ? null : [...(before ?? []), offsets[i]!])
  })
  const layout = { offsets, bytes: end, addresses }
  layouts.set(recipe, layout)
  return layout
}

function sizeOfRule(rule: ParamRule): number {
  switch (rule.kind) {
    case 'tensorMap':
      return TENSOR_MAP_BYTES
    case 'pointer':
    case 'stride':
    case 'workspace':
    case 'scalarAt':
      return 8
    case 'extent':
    case 'carries':
    case 'tileGroup':
      return 4
    case 'scalar':
      return rule.type === 'f64' ? 8 : 4
  }
}

function bytesOfRule(rule: ParamRule, bindings: LaunchBindings, recipe: LaunchRecipe): Uint8Array {
  switch (rule.kind) {
    case 'tensorMap':
      return tensorMapBytes(
        rule,
        rule.copy ? copyOf(rule, rule.copy, bindings, recipe) : operandOf(bindings, rule.operand),
        bindings,
      )
    case 'pointer':
      return scalar(8, (view) => view.setBigUint64(0, operandOf(bindings, rule.operand).tensor.pointer, true))
    case 'stride':
      return int64(strideOf(operandOf(bindings, rule.operand), rule.axis, extentOf(bindings, rule.axis)))
    case 'extent':
      return int32(extentOf(bindings, rule.axis))
    case 'carries':
      return int32(operandOf(bindings, rule.operand).axes.includes(rule.axis) ? 1 : 0)
    case 'scalar':
      return scalarBytes(rule, bindings)
    case 'scalarAt':
      return scalar(8, (view) => view.setBigUint64(0, bindings.operands[rule.name]?.tensor.pointer ?? 0n, true))
    case 'tileGroup':
      return int32(bindings.tileGroup ?? 1)
    case 'workspace':
      return scalar(8, (view) => view.setBigUint64(0, regionAddress(rule.region, bindings, recipe), true))
  }
}

function regionAddress(region: string, bindings: LaunchBindings, recipe: LaunchRecipe): bigint {
  const isZeroed = recipe.workspace?.some(({ name, zeroed }) => name === region && zeroed) === true
  const { starts, bytes } = workspaceLayout(recipe, bindings, isZeroed ? 'zeroed' : 'workspace')
  const workspace = isZeroed ? bindings.zeroed : bindings.workspace
  const start = starts.get(region)
  if (workspace === undefined || start === undefined)
    throw ktlError('KTL4016', { what: 'workspace', expected: `${bytes} bytes of scratch memory`, got: 'nothing' })
  return workspace + BigInt(start)
}

/** The copy of an operand with aligned rows, as an operand. */
function copyOf(
  rule: TensorMapRule,
  { region, axes }: NonNullable<TensorMapRule['copy']>,
  bindings: LaunchBindings,
  recipe: LaunchRecipe,
): BoundOperand {
  const given = operandOf(bindings, rule.operand)
  const shape = given.axes.map((axis) => extentOf(bindings, axis))
  const pitches = copyPitches(axes, rule.dtype, (axis) => (given.axes.includes(axis) ? extentOf(bindings, axis) : 1))
  const strides = given.axes.map((axis) => pitches[axes.indexOf(axis)]!)
  const pointer = regionAddress(region, bindings, recipe)
  return { tensor: { pointer, dtype: rule.dtype, shape, strides }, axes: given.axes }
}

/** A scalar that lies on the device is passed as 0. */
function scalarBytes(
  { name, type }: ParamRule & { kind: 'scalar' },
  { scalars, operands }: LaunchBindings,
): Uint8Array {
  const value = Object.hasOwn(scalars, name) ? scalars[name] : Object.hasOwn(operands, name) ? 0 : undefined
  if (typeof value !== 'number') {
    throw ktlError('KTL4016', { what: `scalar ${name}`, expected: `a number for ${type}`, got: String(value) })
  }
  switch (type) {
    case 'f32':
      return scalar(4, (view) => view.setFloat32(0, value, true))
    case 'f64':
      return scalar(8, (view) => view.setFloat64(0, value, true))
    case 'i32':
      return scalar(4, (view) => view.setInt32(0, value, true))
    case 'u32':
      return scalar(4, (view) => view.setUint32(0, value, true))
  }
}

/** 0 where the operand does not vary along the axis. */
function strideOf({ tensor, axes }: BoundOperand, axis: string, extent: number): number {
  const dimension = axes.indexOf(axis)
  if (dimension < 0) return 0
  return tensor.shape[dimension] === 1 && extent !== 1 ? 0 : tensor.strides[dimension]!
}

/**
 * Axes the operand lacks have extent 1. Maps have no empty dimensions: an extent of 0 (K = 0) is encoded as 1, and
 * the kernel issues no copy then. Strides of dimensions of extent 1 never count, so any legal one will do.
 */
function tensorMapBytes(rule: TensorMapRule, operand: BoundOperand, bindings: LaunchBindings): Uint8Array {
  const { tensor, axes } = operand
  if (rule.tiles) return tiledMapBytes(rule, operand, bindings)
  const elementBytes = DTYPES[rule.dtype].bits / 8
  const dims: number[] = []
  const strides: number[] = []
  rule.axes.forEach((axis, i) => {
    const dimension = axes.indexOf(axis)
    const extent = dimension < 0 ? 1 : Math.max(1, tensor.shape[dimension]!)
    const stride = dimension < 0 || extent === 1 ? null : tensor.strides[dimension]!
    dims.push(extent)
    if (i > 0) strides.push(stride === null ? 16 : stride * elementBytes)
    else if (stride !== null && stride !== 1) {
      throw ktlError('KTL4016', {
        what: `operand ${rule.operand}`,
        expected: `axis ${axis} contiguous in memory`,
        got: `stride ${stride}`,
      })
    }
  })
  const { box, swizzle, clipped } = rule
  if (clipped !== undefined) {
    dims.splice(1, 1, clipped.rows, dims[1]! + (clipped.cut === 'behind' ? clipped.rows : 0))
    strides.unshift(strides[0]!)
  }
  const dtype = rule.padded && DTYPES[rule.dtype].bits === 4 ? 'b4x16_p64' : rule.dtype
  // L2 may fetch more of a long row at once: 3 % of memory-bound GEMMs on an H100, and on an H200 of those whose rows start between lines
  // of 128 bytes; 256 cost those up to 13 %.
  const pitch = strides[0] ?? 0
  const isLong = (bytes: number): boolean => dims[0]! * elementBytes >= 4 * bytes
  const l2Promotion = pitch % 256 === 0 && isLong(256) ? '256B' : isLong(128) ? '128B' : '64B'
  const address = tensor.pointer - BigInt((clipped?.cut === 'behind' ? clipped.rows : 0) * pitch)
  return createTensorMap({ dtype, address, dims, strides, box, swizzle, l2Promotion }).bytes.slice(0, TENSOR_MAP_BYTES)
}

/** Scales in tiles, whose strides are bytes between tiles: words of a tile, then tiles along each axis. */
function tiledMapBytes(
  { axes, box, tiles, groups }: TensorMapRule,
  operand: BoundOperand,
  bindings: LaunchBindings,
): Uint8Array {
  const more = (i: number): number => (i === 0 && groups !== undefined ? extentOf(bindings, groups) : 0)
  const dims = axes.map((axis, i) =>
    operand.axes.includes(axis) ? Math.max(1, Math.ceil(extentOf(bindings, axis) / tiles![i]!) + more(i)) : 1,
  )
  const strides = axes.map((axis, i) => (dims[i] === 1 ? 16 : strideOf(operand, axis, extentOf(bindings, axis))))
  const address = operand.tensor.pointer
  return createTensorMap({ dtype: 'u32', address, dims: [box[0]!, ...dims], strides, box }).bytes.slice(
    0,
    TENSOR_MAP_BYTES,
  )
}

function operandOf({ operands }: LaunchBindings, name: string): BoundOperand {
  if (Object.hasOwn(operands, name)) return operands[name]!
  throw ktlError('KTL4016', { what: `operand ${name}`, expected: 'a tensor', got: 'nothing' })
}

function extentOf({ extents }: Pick<LaunchBindings, 'extents'>, axis: string): number {
  return Object.hasOwn(extents, axis) ? extents[axis]! : 1
}

function scalar(bytes: number, put: (view: DataView) => void): Uint8Array {
  const block = new Uint8Array(bytes)
  put(new DataView(block.buffer))
  return block
}

const int32 = (value: number): Uint8Array => scalar(4, (view) => view.setInt32(0, value, true))
const int64 = (value: number): Uint8Array => scalar(8, (view) => view.setBigInt64(0, BigInt(value), true))
