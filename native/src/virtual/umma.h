// tcgen05.mma: D[M,N] = A[M,K] * B[N,K]^T (+ D * 2^-scale), D in Tensor Memory, on one CTA or a pair.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>
#include "instruction_descriptor.h"
#include "memory.h"
#include "tmem.h"

namespace ktl {

// Fast: f32 fused multiply-adds in k order; exact whenever products and partial sums are.
// Silicon: the measured model: all terms of one instruction and D aligned to the largest exponent, truncated
// to 25 fraction bits, summed exactly, then truncated to f32 (nearest even to f16). About 100 times slower. With block
// scales see multiplyScaled.
enum class UmmaMode : uint8_t { Fast, Silicon };

// One instruction as issued.
struct UmmaOp {
  UmmaKind kind = UmmaKind::F16;
  uint8_t ctaGroup = 1;
  bool aInTmem = false;
  bool enableInputD = false;
  uint8_t scaleInputD = 0;   // 0..15
  uint32_t instruction = 0;  // instruction descriptor
  uint32_t d = 0;            // TMEM address
  uint64_t a = 0;            // shared-memory descriptor, or TMEM address
  uint64_t b = 0;            // shared-memory descriptor
  uint8_t scaleBlock = 0;    // block-scaled kinds: k elements that share a scale, 16 or 32; of a sparse A twice as many
  uint32_t scaleA = 0, scaleB = 0;  // their TMEM addresses
  bool isWeightStationary = false;  // tcgen05.mma.ws
  uint64_t columnMask = 0;          // of it: the zero-column mask descriptor
  bool shiftsA = false;             // .ashift: A in Tensor Memory moves down by a row when the product is done
  bool isSparse = false;
  uint32_t metadata = 0;  // TMEM address of those of a sparse A
  std::array<uint32_t, 8>
      disableOutputLane{};  // bit set: that lane of D is not written; words 4-7: the odd CTA
};

// What a CTA contributes: [0] the even CTA (or the only one), [1] its peer for cta_group::2.
struct UmmaCta {
  const SharedMemory* shared = nullptr;
  TensorMemory* tmem = nullptr;
};

struct UmmaCost {
  uint64_t macs = 0;
  uint64_t cycles = 0;  // modelled initiation interval
};

// At issue: decodes and checks all descriptors, shared-memory extents and TMEM columns. Throws Fault
// Descriptor, SharedOutOfBounds, TmemAccess.
UmmaCost validateUmma(const UmmaOp& op, std::span<const UmmaCta> ctas);

// What an instruction touches in each CTA.
struct UmmaFootprint {
  struct Scales {
    const char* name = "";
    uint32_t column = 0, columns = 0;
  };
  std::vector<uint32_t> chunks;  // of A and B: shared addresses of 16 bytes each
  uint32_t column = 0, columns = 0;    // of D
  uint32_t aColumn = 0, aColumns = 0;  // of A in Tensor Memory
  uint32_t groups = 0;                 // bit g: lanes 16g to 16g + 15 of D
  std::array<Scales, 3> scales;        // of A and B, and the metadata of A; in all lanes
};
UmmaFootprint footprintOf(const UmmaOp& op);

// At delivery: executes `ops` in order. Runs of instructions that accumulate into the same D with the same
// instruction descriptor are executed together, so pass whole k-blocks. Checks what validateUmma checks.
// Operand bytes (or TMEM cells of A) that nobody wrote make their rows or columns of D invalid.
UmmaCost executeUmma(std::span<const UmmaOp> ops, std::span<const UmmaCta> ctas,
                     UmmaMode mode = UmmaMode::Fast);

// Cycles between two such instructions on a B200 (modelled from measurements; M, N of the instruction
// descriptor).
uint32_t ummaCycles(uint32_t ctaGroup, uint32_t m, uint32_t n, bool aInTmem);

}  // namespace ktl
