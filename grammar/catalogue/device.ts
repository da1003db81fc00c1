/**
 * 50xx: findings of the virtual device. The device words the message itself (it knows addresses, parities and byte
 * counts); an entry says what the finding means. Numbers are those of native/src/virtual/findings.h.
 */
import { entry } from './entry.ts'

/** What the device says, and where. */
export interface Reported {
  readonly message: string
  readonly notes?: readonly string[]
}

const finding = (title: string, explain: string) =>
  entry<Reported>({ title, explain, word: ({ message, notes }) => ({ message, ...(notes?.length && { notes }) }) })

export const device = {
  KTL5001: finding(
    'memory access out of bounds',
    'A load, store, atomic or bulk copy touched global, constant, parameter or local memory outside every allocation. ' +
      'Check the guard of the last tile, and the extents and strides passed at launch.',
  ),
  KTL5002: finding(
    'shared memory access out of bounds',
    "An address lies outside the CTA's shared memory, or outside that of the CTA it names in the cluster. Check " +
      '`sharedMemBytes` and the carve-up of dynamic shared memory.',
  ),
  KTL5003: finding('misaligned access', 'Every access must be aligned to its size; bulk copies to 16 bytes, tensor copies to 128.'),
  KTL5004: finding(
    'uninitialised value used',
    'A value that nothing wrote (a register, shared memory or tensor memory) reached an output, an address or a ' +
      'branch. Usually a wait is missing between the copy and the read.',
  ),
  KTL5005: finding(
    'hang',
    'No warp can make progress and no asynchronous work is left that could wake one. The notes list who waits on what. ' +
      'Usual causes: a wrong phase parity, an arrival count that is never reached, an expect_tx that no copy satisfies.',
  ),
  KTL5006: finding(
    'mbarrier protocol broken',
    'More arrivals than the barrier was initialised for, a transaction count out of range, or an operation on a ' +
      'barrier that was not initialised. Hardware faults or corrupts the phase.',
  ),
  KTL5007: finding('mbarrier byte count does not match', 'The bytes of expect_tx and the bytes that copies delivered differ.'),
  KTL5008: finding('tensor memory leaked', 'A CTA ended without deallocating its tensor memory; later CTAs on the SM would block.'),
  KTL5009: finding(
    'illegal tensor memory access',
    'The columns are not allocated, are freed already, or belong to a lane quarter that the warp cannot reach (warp i ' +
      'of a warpgroup reads lanes 32i to 32i+31).',
  ),
  KTL5010: finding('illegal matrix descriptor', 'A shared-memory or instruction descriptor has a reserved value or does not fit the instruction.'),
  KTL5011: finding('illegal tensor map', 'The 128 bytes are no tiled tensor map, or the copy does not fit it (rank, alignment of the box start).'),
  KTL5012: finding('unknown PTX instruction', 'The virtual device does not execute this instruction or this form of it.'),
  KTL5013: finding('PTX syntax', 'The text is not PTX that nvcc would emit. Modules are loaded from PTX text, not from CUDA C++.'),
  KTL5014: finding('instruction budget exceeded', 'The launch executed more warp instructions than `instructionBudget` allows.'),
  KTL5015: finding('divergent warp at an aligned instruction', 'An `.aligned` instruction must be executed by all lanes of the warp together.'),
  KTL5016: finding('trap', 'The kernel executed `trap` or a failed assertion.'),
  KTL5017: finding('out of device memory', 'The live allocations would exceed `memoryBytes` of the device. Free tensors or raise it.'),
  KTL5018: finding('cancelled', 'The launch was stopped by its AbortSignal.'),
  KTL5019: finding('race', 'Two accesses to the same bytes, one of them a write, are ordered by no barrier, wait or proxy fence.'),
  KTL5020: finding('illegal launch configuration', 'Grid, block, cluster or shared memory do not fit the kernel or the device.'),
  KTL5021: finding('illegal free', 'The address is not the start of a live allocation.'),
  KTL5022: finding('mbarrier overwritten', 'A live barrier was initialised again, or other data was written over it.'),
  KTL5023: finding('asynchronous work left at exit', 'A CTA ended before copies or MMAs that it started were complete.'),
  KTL5024: finding('unsupported call', 'printf, malloc and other system calls are not available on the virtual device.'),
} // prettier-ignore
