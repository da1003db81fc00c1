// The inner loops of the tensor unit: D[column][row] += sum over k of A[row][k] * B[column][k].
#pragma once
#include <array>
#include <cstdint>

namespace ktl {

// `steps` instructions of `depth` k elements each, accumulated in that order. 16 rows form a group: a vector
// of 16 consecutive lanes of a D column.
struct UmmaBlock {
  uint32_t* d = nullptr;            // cell (lane 0, first column); columns are 128 cells apart
  uint32_t columns = 0;             // a multiple of 4
  uint32_t groups = 0;              // a multiple of 4, at most 8
  std::array<uint32_t, 8> lanes{};  // first lane of each group
  const float* a = nullptr;         // [step][group][k][16]
  const float* b = nullptr;         // [step][column][k]
  uint32_t aStep = 0, bStep = 0;    // elements between steps
  uint32_t steps = 1, depth = 0;
  bool accumulate = false;  // add to D instead of overwriting it
};
constexpr uint32_t kColumnPitch = 128;

enum class Isa : uint8_t { Portable, Avx2, Avx512 };
bool supported(Isa isa);
Isa bestIsa();

// f32. NaN results become 7FFFFFFF and zeros +0. The same bits on every Isa, except that Portable rounds a
// product that leaves f32's range (bf16 and tf32 only) before it adds.
void multiplyF32(const UmmaBlock& block, Isa isa);
// int32 operands (stored in the float arrays), wrapping modulo 2^32, or clamping each step when `saturate`.
void multiplyS32(const UmmaBlock& block, bool saturate);

}  // namespace ktl
