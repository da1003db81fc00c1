// wgmma.mma_async: D[64, N] = A[64, K] * B[N, K]^T (+ D), D in the registers of the four warps of a warpgroup, A in
// registers or shared memory, B in shared memory (PTX ISA 9.7.15.5).
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include "instruction_descriptor.h"
#include "memory.h"
#include "smem_descriptor.h"
#include "sparse.h"
#include "taint.h"
#include "umma.h"

namespace ktl {

constexpr uint32_t kWgmmaRows = 64;
constexpr uint32_t kWgmmaWarps = 4;
constexpr uint32_t kWgmmaFragments = 4;   // registers of A; its metadata are in one more
constexpr uint32_t kWgmmaBatchSteps = 4;  // instructions of one chain that are multiplied together

// What the instruction says; operand addresses come with each execution.
struct WgmmaForm {
  OperandType a, b;
  Accumulator d = Accumulator::F32;
  uint32_t n = 0;
  bool aInRegisters = false;
  bool negateA = false, negateB = false;
  bool aMnMajor = false, bMnMajor = false;
  bool saturate = false;  // s32
  bool binary = false;    // .b1.and.popc: 256 bits of k
  Sparsity sparse;
  uint32_t selector = 0;  // of the lanes whose metadata count

  uint32_t registersOfD() const { return d == Accumulator::F16 ? n / 4 : n / 2; }
  uint32_t registersOfA() const { return (aInRegisters ? kWgmmaFragments : 0) + (sparse ? 1 : 0); }  // metadata last
  uint32_t stored() const { return 32 / a.bytes(); }  // elements of a row of A; of binary: bytes
  uint32_t depth() const { return stored() * (sparse ? 2 : 1); }
  uint64_t macs() const { return uint64_t{kWgmmaRows} * n * (binary ? 256 : stored()); }
};

// The registers of A (and of its metadata, last) as they were at issue, and the lanes whose value is uninitialised.
struct WgmmaFragments {
  uint32_t values[kWgmmaWarps][kWgmmaFragments + 1][32];
  uint32_t taint[kWgmmaWarps][kWgmmaFragments + 1];
};

struct WgmmaOp {
  uint64_t a = 0, b = 0;  // shared-memory descriptors
  const WgmmaFragments* fragments = nullptr;  // instead of a; metadata
  bool accumulate = false;                    // scale-d
};

// D: register r of warp w is 32 lanes at registers[w] + slots[r] * 64 bytes, with the taint of slots[r].
struct WgmmaRegisters {
  std::array<uint8_t*, kWgmmaWarps> registers{};
  std::array<Taint*, kWgmmaWarps> taint{};
  const uint32_t* slots = nullptr;
  uint32_t* at(uint32_t warp, uint32_t r) const {
    return reinterpret_cast<uint32_t*>(registers[warp] + size_t{slots[r]} * 64);
  }
};

// Throws Fault SharedOutOfBounds when a byte of an operand lies outside shared memory.
void checkWgmma(const WgmmaForm& form, const WgmmaOp& op, const SharedMemory& shared);

// Executes up to kWgmmaBatchSteps instructions of one form that all but the first accumulate into the same D. f16
// results round after each instruction, so these come one at a time. checkWgmma must have passed.
void executeWgmma(const WgmmaForm& form, std::span<const WgmmaOp> ops, const SharedMemory& shared,
                  const WgmmaRegisters& d, UmmaMode mode);

// Shared addresses of the 16-byte chunks that an instruction reads.
std::vector<uint32_t> wgmmaChunks(const WgmmaForm& form, const WgmmaOp& op);

}  // namespace ktl
