/**
 * Costs of SM90 kernels: waves of clusters, each the slower of its MMAs and its loads, and the epilogue where nothing runs over
 * it; under the limits of L2 and DRAM.
 */
import type { Sm90Plan } from '../../compiler/sm90/plan.ts'
import type { Machine } from './machine.ts'
import { arithmeticCycles, formatTime, trafficBytes, type Estimate, type Extents } from './rank.ts'

/** wgmma of 64 rows, both operands in shared memory: cycles (measured on an H100). */
export const wgmmaCycles = (n: number): number => Math.max(n / 2, 16 + n / 4)

/** Cycles of a warp for a column of 16 rows, beyond arithmetic: conversion, staging, store. */
const EPILOGUE_COLUMN = 6
/** From the last MMA of a tile to the first of the next one of the same warpgroup, beside the epilogue. */
const TILE_START = 400
/** CTAs that share k wait for each other, and exchange their sums. */
const SPLIT_START = 1200
const CLUSTER_START = 150

/** Modelled time of one plan. */
export function estimateSm90(plan: Sm90Plan, extents: Extents, machine: Machine): Estimate {
  const { gemm, cluster, tile, design, splits, warpgroups } = plan
  const [tileM, tileN, tileK] = tile
  const [clusterM, clusterN] = cluster.shape
  const [m, n, k] = [extents[gemm.m]!, extents[gemm.n]!, extents[gemm.k]!]
  const l = gemm.l === null ? 1 : extents[gemm.l]!
  const units = Math.ceil(m / (tileM * clusterM)) * Math.ceil(n / (tileN * clusterN)) * l
  const capacity = Math.max(1, machine.gpcs.reduce((sum, sms) => sum + Math.floor(sms / cluster.size), 0))
  const waves = Math.ceil(units / capacity)
  const busy = Math.min(units, capacity) * cluster.size
  const kTiles = Math.max(1, Math.ceil(Math.ceil(k / tileK) / splits))
  // The warpgroups of an SM share its tensor core.
  const mma = plan.mmaSteps * plan.b.length * (tileM / 64) * wgmmaCycles(tileN)
  const l2Stage = plan.a.tileBytes / clusterN + plan.b.reduce((sum, b) => sum + b.tileBytes, 0) / clusterM
  const loads = Math.max(plan.stageBytes / machine.smemBytes, (l2Stage * busy) / machine.l2Bytes, machine.loadLatency / plan.stages)
  const gathered = plan.stageBytes / 8
  const step = Math.max(mma, loads, [plan.a, ...plan.b].some(({ source }) => source === 'gather') ? gathered : 0)
  const epilogue = epilogueCycles(plan)
  const mainloop = kTiles * step
  const pingpong = design.consumers === 'pingpong'
  const perTile = pingpong ? Math.max(mainloop, (mainloop + epilogue + TILE_START) / warpgroups) : mainloop + epilogue + TILE_START
  const start = machine.launchCycles + machine.loadLatency + (cluster.size > 1 ? CLUSTER_START : 0) + (splits > 1 ? SPLIT_START : 0)
  const compute = start + (waves - 1) * perTile + mainloop + epilogue
  const dram = start + trafficBytes(plan.program, extents) / (machine.dramBytes * Math.min(1, busy / (0.6 * machine.sms)))
  const cycles = Math.max(compute, dram)
  const boundBy = cycles === dram ? 'dram' : mma >= step ? 'mma' : 'loads'
  const microseconds = (cycles / machine.clock) * 1e6
  const text = `${formatTime(microseconds)} modelled: ${units} tiles of clusters in ${waves} waves, ${kTiles} k steps of ${Math.round(step)} cycles, epilogue ${Math.round(epilogue)}; bound by ${boundBy}`
  return { microseconds, boundBy, text }
} // prettier-ignore

function epilogueCycles({ epilogue, program, rowBlocks, b }: Sm90Plan): number {
  const { outputs, aux, layout } = epilogue
  const loads = aux.reduce((sum, { shape, vector }) => sum + (shape === 'full' ? (vector ? 4 : 12) : shape === 'row' ? 2 : 0), 0)
  const stores = outputs.reduce((sum, { store }) => sum + (store === 'tma' ? EPILOGUE_COLUMN : 24), 0)
  // Each of the four schedulers of an SM serves the warps of its quarter.
  return rowBlocks * layout.columns * (stores + loads + b.length + (arithmeticCycles(program) * 16) / 32)
} // prettier-ignore
