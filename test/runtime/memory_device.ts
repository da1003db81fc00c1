import { BaseDevice } from '../../runtime/devices/base.ts'
import type { DeviceModule } from '../../runtime/modules/module.ts'

/** A device that is only memory: tensors and streams behave on it as on any other. */
export class MemoryDevice extends BaseDevice {
  readonly name = 'memory'
  readonly kind = 'virtual'
  readonly arch = 'sm_100a'
  readonly cc = 100
  readonly smCount = 4
  readonly moduleFormat = 'ptx'
  readonly properties = {
    name: 'memory', cc: 100, smCount: 4, memoryBytes: 0, l2Bytes: 0, sharedBytesPerSm: 0, sharedBytesPerBlock: 0,
    clockKHz: 0, memoryClockKHz: 0, memoryBusBits: 0, clusters: [], driverVersion: 0,
  } // prettier-ignore
  readonly live = new Map<bigint, Uint8Array>()
  #next = 0x10000n

  protected allocate(bytes: number, at: bigint, align: number): bigint {
    const unit = BigInt(align)
    const pointer = at !== 0n ? at : ((this.#next + unit - 1n) / unit) * unit
    this.#next = pointer + BigInt(bytes)
    // Fresh memory is not zero.
    this.live.set(pointer, new Uint8Array(bytes).fill(0xcd))
    return pointer
  }

  protected release(pointer: bigint): void {
    this.live.delete(pointer)
  }

  protected async shutdown(): Promise<void> {}

  async loadModule(): Promise<DeviceModule> {
    throw new Error('this device has no processor')
  }

  memoryInfo(): { allocatedBytes: number; allocations: number; capacityBytes: number } {
    const allocatedBytes = [...this.live.values()].reduce((sum, bytes) => sum + bytes.length, 0)
    return { allocatedBytes, allocations: this.live.size, capacityBytes: Number.MAX_SAFE_INTEGER }
  }

  copyToDevice(pointer: bigint, bytes: Uint8Array): void {
    this.#range(pointer, bytes.length).set(bytes)
  }

  async copyFromDevice(pointer: bigint, bytes: number): Promise<Uint8Array> {
    return this.#range(pointer, bytes).slice()
  }

  #range(pointer: bigint, bytes: number): Uint8Array {
    for (const [base, memory] of this.live) {
      const offset = Number(pointer - base)
      if (pointer >= base && offset + bytes <= memory.length) return memory.subarray(offset, offset + bytes)
    }
    throw new RangeError(`${bytes} bytes at 0x${pointer.toString(16)} are not allocated`)
  }
}
