// What the fuzzer's generators share: numbers that repeat from a seed, extreme values, and a mutant.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>
#include "../src/virtual/machine.h"
#include "check.h"

namespace ktl::fuzz {

using tests::Random;

// Where every mutant finds its device memory.
constexpr uint64_t kBuffer = 0x7f0000000000, kBufferBytes = 32 << 10, kMaps = 4;

struct Mutant {
  std::string ptx, entry = "kernel";
  std::string target;  // of the device
  LaunchConfig config;
  // The buffer begins with kMaps tensor maps.
  std::vector<uint8_t> memory;
};

template <class T, size_t N>
const T& pick(Random& random, const T (&items)[N]) {
  return items[random.below(N)];
}
template <class T>
const T& pick(Random& random, const std::vector<T>& items) {
  return items[random.below(static_cast<uint32_t>(items.size()))];
}
inline bool chance(Random& random, uint32_t n) { return random.below(n) == 0; }

// Values where arithmetic wraps, windows begin and end, and fields are full.
size_t extremes();
uint64_t extreme(size_t i);
// An extreme, or one changed a little.
uint64_t wild(Random& random);
// PTX text of the value: decimal with a sign, or hexadecimal.
std::string literal(Random& random, uint64_t value);

uint64_t sharedDescriptor(Random& random, bool sm100);
uint32_t instructionDescriptor(Random& random);
std::array<uint8_t, 128> tensorMap(Random& random);

// Memory, order, checks and geometry, mostly such that a launch happens.
void surround(Random& random, Mutant& mutant, bool small);
// The parameter block of a kernel with these sizes and offsets.
void fillParameters(Random& random, Mutant& mutant, const std::vector<std::pair<uint64_t, uint64_t>>& params);

// One to six instructions of the device's table with operands at their extremes, in a kernel that has prepared barriers,
// Tensor Memory, descriptors and maps for them. `number` counts through all forms, operands and extremes.
Mutant formMutant(Random& random, uint64_t number);
std::vector<std::string> tableOpcodes();
// One instruction of the opcode, with modifiers of one of its rows.
Mutant opcodeMutant(Random& random, const std::string& opcode);

// A stretch of a kernel that the compiler generated, or of one written by hand, with a few edits; sometimes all of it.
// `corpus`: texts of PTX modules.
Mutant textMutant(Random& random, const std::vector<std::string>& corpus);

}  // namespace ktl::fuzz
