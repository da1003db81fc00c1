// Blocks of bits that kernels hand to the device: descriptors, tensor maps, parameters, launch configurations.
#include <algorithm>
#include <cstring>
#include "fuzz.h"
#include "tensor_map_encoder.h"

namespace ktl::fuzz {
namespace {

constexpr uint64_t kExtremes[] = {
    0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 24, 31, 32, 33, 63, 64, 96, 127, 128, 129, 255, 256, 257, 511, 512, 513,
    0x3f0, 0x3ff, 0x400, 0x401, 0x408, 0x480, 0x800, 0xffc, 0x1000, 0x7fff, 0x8000, 0xfff0, 0xffff, 0x10000, 0x38000, 0x39000,
    0xfffff, 0x100000, 0xfffff0, 0xffffff, 0x1000000, 0x1000400, 0x1000800, 0x2000400, 0x20000400, 0x7fffff00, 0x7fffffff, 0x80000000,
    0xfffffff0, 0xfffffffc, 0xffffffff, 0x100000000, 0x100000400,
    kBuffer - 16, kBuffer, kBuffer + 1, kBuffer + kBufferBytes - 16, kBuffer + kBufferBytes - 1, kBuffer + kBufferBytes,
    kGlobalEnd - 16, kGlobalEnd, kGlobalEnd + 0x100000000, kGlobalEnd + 0x100000000 + 0x400, kGlobalEnd + 0x1fffffff0,
    kGlobalEnd + 0x200000000, kGlobalEnd + 0x2fffffff0, kGlobalEnd + 0x300000000, kGlobalEnd + 0x3fffffff8,
    0x7ff0000000000000, 0x7fffffffffffffff, 0x8000000000000000, 0x8000000000000001, 0xfffffffffffffc00,
    0xfffffffffffffff0, 0xfffffffffffffff8, 0xfffffffffffffffc, 0xffffffffffffffff,
};

}  // namespace

size_t extremes() { return std::size(kExtremes); }
uint64_t extreme(size_t i) { return kExtremes[i]; }

uint64_t wild(Random& random) {
  uint64_t value = pick(random, kExtremes);
  switch (random.below(8)) {
    case 0: value ^= uint64_t{1} << random.below(64); break;
    case 1: value += random.below(33) - 16u; break;
    case 2: value = uint64_t{0} - value; break;
    case 3: value = random.next(); break;
    default: break;
  }
  return value;
}

std::string literal(Random& random, uint64_t value) {
  if (chance(random, 2)) return std::to_string(static_cast<int64_t>(value));
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

uint64_t sharedDescriptor(Random& random, bool sm100) {
  static constexpr uint32_t kSwizzles100[] = {0, 1, 2, 4, 6}, kOffsets[] = {0, 1, 2, 8, 16, 32, 64, 128, 1024, 0x3fff};
  uint64_t bits = 64 + random.below(4) * 64;  // in units of 16 bytes: the data begins at 1 KiB
  bits |= uint64_t{pick(random, kOffsets)} << 16 | uint64_t{pick(random, kOffsets)} << 32;
  if (sm100) bits |= uint64_t{1} << 46 | uint64_t{pick(random, kSwizzles100)} << 61;
  else bits |= uint64_t{random.below(4)} << 62;
  if (chance(random, 3)) bits ^= uint64_t{1} << random.below(64);
  if (chance(random, 8)) bits = (bits & ~uint64_t{0x3fff}) | random.below(0x4000);
  return chance(random, 16) ? wild(random) : bits;
}

uint32_t instructionDescriptor(Random& random) {
  static constexpr uint32_t kColumns[] = {1, 2, 4, 8, 16, 31, 32}, kRows[] = {2, 4, 8, 16};
  uint32_t bits = random.below(3) << 4 | random.below(3) << 7 | random.below(3) << 10 | random.below(16) << 13 |
                  pick(random, kColumns) << 17 | pick(random, kRows) << 24;
  if (chance(random, 3)) bits |= 4 | random.below(2);  // sparse
  if (chance(random, 3)) bits ^= 1u << random.below(32);
  return bits;
}

std::array<uint8_t, 128> tensorMap(Random& random) {
  TensorMap map;
  map.address = kBuffer + 512 + 16 * random.below(64);
  map.rank = 1 + random.below(5);
  map.element = static_cast<TensorElement>(random.below(16));
  map.elementBytes = traitsOf(map.element).bytes;
  map.swizzle = static_cast<Swizzle>(random.below(7));
  if (map.rank >= 3 && chance(random, 3)) {
    map.im2col = true;
    map.pixels = 1 + random.below(chance(random, 8) ? 1024 : 40);
    for (uint32_t d = 0; d < 3; ++d) {
      map.lower[d] = static_cast<int32_t>(random.below(7)) - 4;
      map.upper[d] = static_cast<int32_t>(random.below(7)) - 4;
    }
  }
  map.nanFill = traitsOf(map.element).isFloat && chance(random, 4);
  uint64_t stride = 16 << random.below(5);
  for (uint32_t i = 0; i < map.rank; ++i) {
    map.dims[i] = 1 + random.below(40);
    map.box[i] = 1 + random.below(i == 0 ? 16 : 5);
    if (i == 0) map.box[i] = std::min<uint32_t>(256, map.box[i] * 128 / traitsOf(map.element).bits);
    if (i == 0 && map.padded() && !chance(random, 4)) map.box[i] = 128;
    else map.elementStrides[i] = chance(random, 6) ? 1 + random.below(8) : 1;
    map.strides[i] = i == 0 ? map.elementBytes : stride;
    if (i > 0) stride *= 1 + random.below(4);
  }
  std::array<uint8_t, kTensorMapBytes> bytes = tests::encode(map);
  if (chance(random, 6)) bytes[9] |= static_cast<uint8_t>(8u << random.below(2));  // interleaved
  for (uint32_t edits = chance(random, 2) ? 1 + random.below(3) : 0; edits > 0; --edits) {
    const uint32_t at = random.below(15);
    uint32_t word;
    std::memcpy(&word, &bytes[4 * at], 4);
    word = chance(random, 2) ? word ^ 1u << random.below(32) : static_cast<uint32_t>(wild(random));
    std::memcpy(&bytes[4 * at], &word, 4);
  }
  return bytes;
}

void surround(Random& random, Mutant& mutant, bool small) {
  mutant.memory.resize(kMaps * 128 + 1024);
  for (uint32_t i = 0; i < kMaps; ++i) {
    const auto map = tensorMap(random);
    std::copy(map.begin(), map.end(), mutant.memory.begin() + i * 128);
  }
  for (size_t i = kMaps * 128; i < mutant.memory.size(); ++i) mutant.memory[i] = static_cast<uint8_t>(random.next());
  LaunchConfig& config = mutant.config;
  static constexpr uint32_t kBlocks[] = {32, 32, 32, 64, 128, 33, 1};
  config.block = {pick(random, kBlocks), 1, 1};
  if (!small && chance(random, 3)) config.block[0] = 256;
  if (chance(random, 6)) config.grid[0] = config.cluster[0] = 2;
  if (chance(random, 16)) config.grid[0] = 4;
  static constexpr uint32_t kDynamic[] = {0, 1024, 4096, 16384, 65536};
  config.dynamicSharedBytes = pick(random, kDynamic);
  if (chance(random, 200)) {
    for (uint32_t d = 0; d < 3; ++d) {
      config.grid[d] = static_cast<uint32_t>(wild(random));
      config.block[d] = static_cast<uint32_t>(wild(random));
      config.cluster[d] = static_cast<uint32_t>(wild(random));
      config.preferredCluster[d] = chance(random, 2) ? 0 : random.below(5);
    }
    config.dynamicSharedBytes = static_cast<uint32_t>(wild(random));
  }
  config.order = static_cast<LaunchConfig::Order>(random.below(3));
  config.checks = static_cast<LaunchConfig::Checks>(random.below(3));
  config.cooperative = random.below(4) == 0;
  config.print = [](const std::string&) {};
  config.tensorCores = static_cast<LaunchConfig::TensorCores>(random.below(3));
  config.seed = random.next();
  config.trace = chance(random, 32);
  config.instructionBudget = 4000;
  config.warpInstructionBudget = 1500;
}

void fillParameters(Random& random, Mutant& mutant, const std::vector<std::pair<uint64_t, uint64_t>>& params) {
  std::vector<uint8_t>& block = mutant.config.params;
  for (const auto& [offset, bytes] : params) {
    if (block.size() < offset + bytes) block.resize(offset + bytes);
    if (bytes == 128) {
      const auto map = tensorMap(random);
      std::copy(map.begin(), map.end(), block.begin() + static_cast<std::ptrdiff_t>(offset));
    } else {
      uint64_t value = bytes == 8 ? kBuffer + 128 * random.below(16) : 1 + random.below(96);
      if (chance(random, 8)) value = wild(random);
      std::memcpy(block.data() + offset, &value, std::min<uint64_t>(bytes, 8));
    }
  }
  if (chance(random, 64)) block.resize(random.below(300));
}

}  // namespace ktl::fuzz
