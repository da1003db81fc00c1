#include "wgmma.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own intrinsics, which take an undefined vector where every lane is replaced.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "isa.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "fused_sum.h"
#include "matrix_operand.h"
#include "umma_kernel.h"

namespace ktl {
namespace {

constexpr uint32_t kMaxDepth = kWgmmaBatchSteps * kMaxOperandRowBytes;  // k elements of one byte

// Operands and D of a batch: decoded values, D as [column][row]. One per host thread, reused.
struct Scratch {
  alignas(64) float a[kWgmmaRows * kMaxDepth];
  alignas(64) float b[kMaxOperandRows * kMaxDepth];
  alignas(64) uint32_t d[kMaxOperandRows * kColumnPitch];
  alignas(64) uint8_t raw[kMaxOperandRows * kMaxOperandRowBytes];
  alignas(64) float stored[kWgmmaRows * kOperandRowBytes];  // of a sparse A: [row][stored]
  uint8_t kept[kWgmmaRows * kMaxDepth];                     // laid out as a
};

Scratch& scratch() {
  thread_local const std::unique_ptr<Scratch> instance = std::make_unique<Scratch>();
  return *instance;
}

OperandTile tileA(const WgmmaForm& form, uint64_t descriptor) {
  OperandTile tile{decodeSm90Descriptor(descriptor), form.aMnMajor, form.a, kWgmmaRows};
  if (form.aInRegisters) tile.descriptor = {};
  return tile;
}
OperandTile tileB(const WgmmaForm& form, uint64_t descriptor) {
  OperandTile tile{decodeSm90Descriptor(descriptor), form.bMnMajor, form.b, form.n};
  if (form.sparse) tile.rowBytes = kMaxOperandRowBytes;
  return tile;
}

// --- D: register 4j + 2h + e... of a warp holds rows 8h + lane / 4, columns 8j + 2 (lane % 4) + e (PTX ISA figure of
// the wgmma D fragment), so a register is four columns of eight rows.

// columns[q][row] = lanes[4 row + q]
void lanesToColumns(const uint32_t* lanes, uint32_t* columns, uint32_t pitch) {
  for (uint32_t q = 0; q < 4; ++q)
    for (uint32_t row = 0; row < 8; ++row) columns[q * pitch + row] = lanes[4 * row + q];
}
void columnsToLanes(const uint32_t* columns, uint32_t pitch, uint32_t* lanes) {
  for (uint32_t q = 0; q < 4; ++q)
    for (uint32_t row = 0; row < 8; ++row) lanes[4 * row + q] = columns[q * pitch + row];
}

#if KTL_X86
__attribute__((target("avx512f"))) void lanesToColumns512(const uint32_t* lanes, uint32_t* columns, uint32_t pitch) {
  const __m512i low = _mm512_loadu_si512(lanes), high = _mm512_loadu_si512(lanes + 16);
  const __m512i even = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i first = _mm512_permutex2var_epi32(low, even, high);
  const __m512i second = _mm512_permutex2var_epi32(low, _mm512_add_epi32(even, _mm512_set1_epi32(2)), high);
  const auto put = [&](uint32_t q, __m256i value) __attribute__((target("avx512f"))) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(columns + q * pitch), value);
  };
  put(0, _mm512_castsi512_si256(first));
  put(1, _mm512_extracti64x4_epi64(first, 1));
  put(2, _mm512_castsi512_si256(second));
  put(3, _mm512_extracti64x4_epi64(second, 1));
}
__attribute__((target("avx512f"))) void columnsToLanes512(const uint32_t* columns, uint32_t pitch, uint32_t* lanes) {
  const auto get = [&](uint32_t q) __attribute__((target("avx512f"))) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(columns + q * pitch));
  };
  const __m512i first = _mm512_inserti64x4(_mm512_castsi256_si512(get(0)), get(1), 1);
  const __m512i second = _mm512_inserti64x4(_mm512_castsi256_si512(get(2)), get(3), 1);
  const __m512i rows = _mm512_setr_epi32(0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27);
  _mm512_storeu_si512(lanes, _mm512_permutex2var_epi32(first, rows, second));
  _mm512_storeu_si512(lanes + 16,
                      _mm512_permutex2var_epi32(first, _mm512_add_epi32(rows, _mm512_set1_epi32(4)), second));
}

#else
constexpr auto lanesToColumns512 = lanesToColumns;
constexpr auto columnsToLanes512 = columnsToLanes;
#endif

// Calls visit(warp, register, half, tile): `tile` is the first cell of four columns, two columns apart, of eight rows.
template <class Visit>
void forEachFragment(const WgmmaForm& form, uint32_t* d, Visit visit) {
  const bool packed = form.d == Accumulator::F16;
  for (uint32_t j = 0; j < form.n / 8; ++j)
    for (uint32_t warp = 0; warp < kWgmmaWarps; ++warp)
      for (uint32_t h = 0; h < 2; ++h)
        for (uint32_t e = 0; e < 2; ++e)
          visit(warp, packed ? 2 * j + h : 4 * j + 2 * h + e, e,
                d + (8 * j + e) * kColumnPitch + 16 * warp + 8 * h);
}

void loadD(const WgmmaForm& form, const WgmmaRegisters& registers, uint32_t* d) {
  const bool packed = form.d == Accumulator::F16, wide = bestIsa() == Isa::Avx512;
  forEachFragment(form, d, [&](uint32_t warp, uint32_t r, uint32_t half, uint32_t* tile) {
    const uint32_t* lanes = registers.at(warp, r);
    uint32_t widened[32];
    if (packed) {
      for (uint32_t i = 0; i < 32; ++i)
        widened[i] = std::bit_cast<uint32_t>(f16ToF32(static_cast<uint16_t>(lanes[i] >> (16 * half))));
      lanes = widened;
    }
    wide ? lanesToColumns512(lanes, tile, 2 * kColumnPitch) : lanesToColumns(lanes, tile, 2 * kColumnPitch);
  });
}

void storeD(const WgmmaForm& form, const WgmmaRegisters& registers, uint32_t* d) {
  const bool packed = form.d == Accumulator::F16, wide = bestIsa() == Isa::Avx512;
  forEachFragment(form, d, [&](uint32_t warp, uint32_t r, uint32_t half, uint32_t* tile) {
    uint32_t* lanes = registers.at(warp, r);
    uint32_t values[32];
    uint32_t* to = packed ? values : lanes;
    wide ? columnsToLanes512(tile, 2 * kColumnPitch, to) : columnsToLanes(tile, 2 * kColumnPitch, to);
    if (!packed) return;
    for (uint32_t i = 0; i < 32; ++i) {
      const uint32_t value = f32ToF16(std::bit_cast<float>(values[i]));
      lanes[i] = half ? (lanes[i] & 0xffff) | value << 16 : (lanes[i] & 0xffff0000) | value;
    }
  });
}

// Elements of D are tainted by their row of A, their column of B and, when they accumulate, by themselves.
void taintD(const WgmmaForm& form, const WgmmaRegisters& registers, const RowSet& rows, const RowSet& columns,
            bool accumulate) {
  const uint32_t count = form.registersOfD();
  if (!accumulate)
    for (uint32_t warp = 0; warp < kWgmmaWarps; ++warp)
      for (uint32_t r = 0; r < count; ++r) registers.taint[warp]->set(registers.slots[r], ~0u, 0);
  if (rows.none() && columns.none()) return;
  const bool packed = form.d == Accumulator::F16;
  for (uint32_t warp = 0; warp < kWgmmaWarps; ++warp)
    for (uint32_t r = 0; r < count; ++r) {
      const uint32_t j = r / (packed ? 2 : 4), h = packed ? r % 2 : r / 2 % 2;
      uint32_t tainted = 0;
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t row = 16 * warp + 8 * h + lane / 4, column = 8 * j + 2 * (lane % 4);
        const bool bad = packed ? columns[column] || columns[column + 1] : columns[column + r % 2];
        if (rows[row] || bad) tainted |= 1u << lane;
      }
      registers.taint[warp]->set(registers.slots[r], tainted, ~0u);
    }
}

// --- A in registers: register h + 2g of a warp holds rows 8h + lane / 4, bytes 16g + 4 (lane % 4) of k.
void gatherFragments(const WgmmaFragments& fragments, uint8_t* raw, RowSet& invalid) {
  for (uint32_t warp = 0; warp < kWgmmaWarps; ++warp)
    for (uint32_t r = 0; r < kWgmmaFragments; ++r)
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t row = 16 * warp + 8 * (r % 2) + lane / 4;
        std::memcpy(raw + row * kOperandRowBytes + 16 * (r / 2) + 4 * (lane % 4), &fragments.values[warp][r][lane], 4);
        if (fragments.taint[warp][r] >> lane & 1) invalid.set(row);
      }
}

// s.stored with its metadata to the panels of one instruction, zero where nothing is stored.
void spreadA(const WgmmaForm& form, const WgmmaFragments& fragments, Scratch& s, size_t step, RowSet& invalid) {
  const uint32_t depth = form.depth(), chunks = depth / form.sparse.chunk;
  float* const a = s.a + step * kWgmmaRows * depth;
  uint8_t* const kept = s.kept + step * kWgmmaRows * depth;
  std::fill_n(a, kWgmmaRows * depth, 0.0f);
  std::fill_n(kept, kWgmmaRows * depth, uint8_t{0});
  for (uint32_t warp = 0; warp < kWgmmaWarps; ++warp) {
    RowMetadata metadata[kPanelRows];
    const uint32_t* lanes = fragments.values[warp][kWgmmaFragments];
    uint32_t tainted = fragments.taint[warp][kWgmmaFragments] & readMetadata(lanes, chunks, form.a.bytes() == 1, form.selector, metadata);
    for (; tainted != 0; tainted &= tainted - 1)
      for (const uint32_t half : {0u, 8u}) invalid.set(warp * kPanelRows + half + static_cast<uint32_t>(std::countr_zero(tainted)) / 4);
    for (uint32_t i = 0; i < kPanelRows; ++i) {
      const uint32_t row = warp * kPanelRows + i;
      const float* own = s.stored + row * form.stored();
      spreadRow(form.sparse, own, metadata[i], chunks, row, [&](uint32_t from, uint32_t k) {
        const size_t at = (size_t{warp} * depth + k) * kPanelRows + i;
        a[at] = own[from];
        kept[at] = 1;
      });
    }
  }
}

// D += popcount(A & B), on the raw bytes of one instruction.
void multiplyBits(const uint8_t* a, const uint8_t* b, uint32_t n, bool accumulate, uint32_t* d) {
  for (uint32_t column = 0; column < n; ++column)
    for (uint32_t row = 0; row < kWgmmaRows; ++row) {
      uint32_t sum = 0;
      for (uint32_t word = 0; word < kOperandRowBytes / 8; ++word) {
        uint64_t x, y;
        std::memcpy(&x, a + row * kOperandRowBytes + 8 * word, 8);
        std::memcpy(&y, b + column * kOperandRowBytes + 8 * word, 8);
        sum += static_cast<uint32_t>(std::popcount(x & y));
      }
      uint32_t& cell = d[column * kColumnPitch + row];
      cell = sum + (accumulate ? cell : 0);
    }
}

void multiply(const WgmmaForm& form, Scratch& s, uint32_t steps, bool accumulate, UmmaMode mode) {
  UmmaBlock block;
  block.columns = form.n;
  block.groups = kWgmmaRows / kPanelRows;
  for (uint32_t group = 0; group < block.groups; ++group) block.lanes[group] = group * kPanelRows;
  block.steps = steps;
  block.depth = form.depth();
  block.a = s.a;
  block.b = s.b;
  block.aStep = kWgmmaRows * block.depth;
  block.bStep = form.n * block.depth;
  block.accumulate = accumulate;
  block.d = s.d;
  const auto run = [&](const UmmaBlock& part) {
    if (mode == UmmaMode::Silicon) {
      const bool narrow = form.a.bytes() == 1;  // fp8 keeps 13 bits of each sum
      FusedModel model{form.a.format, form.b.format, form.d == Accumulator::F16};
      if (narrow) model.fractionBits = model.resultFractionBits = 13;
      multiplyFused(part, model);
    } else {
      multiplyF32(part, bestIsa());
    }
  };
  if (form.a.isInteger)
    multiplyS32(block, form.saturate);
  else if (form.sparse)
    multiplySparse(block, s.kept, run);
  else
    run(block);
}

}  // namespace

void checkWgmma(const WgmmaForm& form, const WgmmaOp& op, const SharedMemory& shared) {
  if (!form.aInRegisters) checkOperand(tileA(form, op.a), shared, "A");
  checkOperand(tileB(form, op.b), shared, "B");
}

std::vector<uint32_t> wgmmaChunks(const WgmmaForm& form, const WgmmaOp& op) {
  std::vector<uint32_t> chunks;
  if (!form.aInRegisters) appendChunks(tileA(form, op.a), chunks);
  appendChunks(tileB(form, op.b), chunks);
  return chunks;
}

void executeWgmma(const WgmmaForm& form, std::span<const WgmmaOp> ops, const SharedMemory& shared,
                  const WgmmaRegisters& d, UmmaMode mode) {
  Scratch& s = scratch();
  RowSet invalidRows, invalidColumns;
  const bool accumulate = ops.front().accumulate, negate = form.negateA != form.negateB;
  const auto gatherA = [&](const WgmmaOp& op, uint8_t* raw) {
    if (form.aInRegisters)
      gatherFragments(*op.fragments, raw, invalidRows);
    else
      gatherOperand(tileA(form, op.a), shared, raw, invalidRows, 0);
  };
  if (accumulate) loadD(form, d, s.d);
  if (form.binary) {
    alignas(64) uint8_t a[kWgmmaRows * kOperandRowBytes];
    for (const WgmmaOp& op : ops) {
      gatherA(op, a);
      gatherOperand(tileB(form, op.b), shared, s.raw, invalidColumns, 0);
      multiplyBits(a, s.raw, form.n, op.accumulate, s.d);
    }
  } else {
    for (size_t step = 0; step < ops.size(); ++step) {
      const OperandTile a = tileA(form, ops[step].a), b = tileB(form, ops[step].b);
      gatherA(ops[step], s.raw);
      if (form.sparse) {
        decodeOperand(a, s.raw, negate, OperandLayout::Rows, s.stored);
        spreadA(form, *ops[step].fragments, s, step, invalidRows);
      } else {
        decodeOperand(a, s.raw, negate, OperandLayout::Panels, s.a + step * kWgmmaRows * form.depth());
      }
      gatherOperand(b, shared, s.raw, invalidColumns, 0);
      decodeOperand(b, s.raw, false, OperandLayout::Rows, s.b + step * form.n * form.depth());
    }
    multiply(form, s, static_cast<uint32_t>(ops.size()), accumulate, mode);
  }
  storeD(form, d, s.d);
  taintD(form, d, invalidRows, invalidColumns, accumulate);
}

}  // namespace ktl
