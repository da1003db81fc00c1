#include "../src/virtual/tma.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <iomanip>

#include "check.h"
#include "tensor_map_encoder.h"

using namespace ktl;
using namespace ktl::tests;

namespace {

SharedMemory sharedMemory(uint32_t bytes = 228 * 1024) {
  SharedMemory shared;
  shared.bytes.assign(bytes, 0xcd);
  shared.valid.assign(bytes, 0);
  return shared;
}

struct Global {
  GlobalMemory memory{1 << 24};
  uint64_t address;
  uint64_t bytes;
  std::shared_ptr<const GlobalView> view;
  explicit Global(uint64_t size) : address(memory.allocate(size, 0, 256)), bytes(size), view(memory.view()) {}
  uint8_t* data() const { return view->find(address, bytes); }
};

TensorMap map2d(uint64_t address, TensorElement element, uint64_t width, uint64_t height, uint64_t pitch,
                uint32_t boxWidth, uint32_t boxHeight, Swizzle swizzle) {
  TensorMap map;
  map.address = address;
  map.rank = 2;
  map.element = element;
  map.elementBytes = traitsOf(element).bytes;
  map.swizzle = swizzle;
  map.dims[0] = width;
  map.dims[1] = height;
  map.strides[0] = map.elementBytes;
  map.strides[1] = pitch;
  map.box[0] = boxWidth;
  map.box[1] = boxHeight;
  return map;
}

// Address bits exchanged by hand, as the swizzle tables state them.
uint32_t swizzleByHand(Swizzle swizzle, uint32_t a) {
  const auto bit = [&](uint32_t i) { return a >> i & 1; };
  switch (swizzle) {
    case Swizzle::B32: return a ^ bit(7) << 4;
    case Swizzle::B64: return a ^ bit(7) << 4 ^ bit(8) << 5;
    case Swizzle::B128: return a ^ bit(7) << 4 ^ bit(8) << 5 ^ bit(9) << 6;
    case Swizzle::B128Atom32: return a ^ bit(7) << 5 ^ bit(8) << 6;
    default: return a;
  }
}

// Every element of a box, one at a time: visit(shared address, inside, global address). `granular`: dimension
// 0 ends on 16 bytes, as for stores.
template <class Visit>
void walkBox(const TensorMap& map, const int32_t* c, uint32_t shared, bool granular, Visit visit) {
  static constexpr uint32_t kSpans[] = {0, 32, 64, 128, 128};
  const uint32_t es = map.elementBytes;
  const uint32_t pitch =
      map.swizzle == Swizzle::None ? map.box[0] * es : kSpans[static_cast<int>(map.swizzle)];
  uint32_t rows[5] = {map.box[0], 1, 1, 1, 1};
  uint64_t total = 1;
  for (uint32_t i = 0; i < map.rank; ++i) {
    if (i > 0) rows[i] = (map.box[i] + map.elementStrides[i] - 1) / map.elementStrides[i];
    total *= rows[i];
  }
  for (uint64_t linear = 0; linear < total; ++linear) {
    uint64_t rest = linear, address = map.address;
    bool inside = true;
    for (uint32_t i = 0; i < map.rank; ++i) {
      const int64_t at = c[i] + static_cast<int64_t>(rest % rows[i]) * (i == 0 ? 1 : map.elementStrides[i]);
      rest /= rows[i];
      uint64_t limit = map.dims[i];
      if (i == 0 && granular) limit = (limit * es + 15) / 16 * 16 / es;
      inside = inside && at >= 0 && static_cast<uint64_t>(at) < limit;
      address += static_cast<uint64_t>(at) * (i == 0 ? es : map.strides[i]);
    }
    const uint32_t logical = shared + static_cast<uint32_t>(linear / rows[0]) * pitch +
                             static_cast<uint32_t>(linear % rows[0]) * es;
    visit(swizzleByHand(map.swizzle, logical / 16 * 16) + logical % 16, inside, address);
  }
}

TensorMap randomMap(Random& random, const Global& global, bool forStore) {
  static constexpr TensorElement kElements[] = {TensorElement::U8,  TensorElement::F16,  TensorElement::F32,
                                                TensorElement::F64, TensorElement::TF32, TensorElement::BF16};
  TensorMap map;
  map.address = global.address + 16 * random.below(4);
  map.rank = 1 + random.below(5);
  map.element = kElements[random.below(6)];
  map.elementBytes = traitsOf(map.element).bytes;
  map.swizzle = static_cast<Swizzle>(random.below(4));
  map.nanFill = traitsOf(map.element).isFloat && random.below(2) == 1;
  const uint32_t span = map.swizzle == Swizzle::None ? 160 : 16u << static_cast<uint32_t>(map.swizzle);
  map.box[0] = 16 * (1 + random.below(span / 16)) / map.elementBytes;
  map.dims[0] = 1 + random.below(200 / map.elementBytes);
  map.strides[0] = map.elementBytes;
  uint64_t extent = (map.dims[0] * map.elementBytes + 15) / 16 * 16;
  for (uint32_t i = 1; i < map.rank; ++i) {
    map.dims[i] = 1 + random.below(i == 1 ? 20 : 4);
    map.box[i] = 1 + random.below(i == 1 ? 20 : 4);
    map.elementStrides[i] = random.below(3) == 0 ? 1 + random.below(3) : 1;
    map.strides[i] = extent + 16 * random.below(3);
    if (!forStore && random.below(10) == 0) map.strides[i] = 16 * random.below(2);  // overlapping or zero
    extent = std::max(extent, map.strides[i] * map.dims[i]);
  }
  return map;
}

}  // namespace

TEST("tma", "the words of a tensor map") {
  const TensorMap map = map2d(0x123456780, TensorElement::U16, 64, 64, 128, 64, 8, Swizzle::None);
  auto bytes = encode(map);
  const uint32_t expected[] = {0x23456780, 1, 0x90, 8, 0, 0, 0, 0, 0x3f, 0x3f, 0, 0, 0, 0x3f000000, 7, 0};
  for (uint32_t i = 0; i < 16; ++i) CHECK_EQ(word(bytes, i), expected[i]);
  const uint32_t swizzled128 = 0x6090;
  std::memcpy(&bytes[8], &swizzled128, 4);
  std::memset(&bytes[64], 0xff, 64);  // the hardware ignores words 16-31
  const TensorMap decoded = decodeTensorMap(bytes.data());
  CHECK(decoded.swizzle == Swizzle::B128);
  CHECK_EQ(decoded.address, 0x123456780u);
  CHECK_EQ(decoded.rank, 2u);
  CHECK_EQ(decoded.elementBytes, 2u);
  CHECK_EQ(decoded.dims[0], 64u);
  CHECK_EQ(decoded.dims[1], 64u);
  CHECK_EQ(decoded.strides[1], 128u);
  CHECK_EQ(decoded.box[0], 64u);
  CHECK_EQ(decoded.box[1], 8u);
  CHECK_EQ(decoded.transactionBytes(), 1024u);

  TensorMap large =
      map2d(16, TensorElement::TF32Ftz, uint64_t{1} << 32, 7, (uint64_t{1} << 40) - 16, 4, 256, Swizzle::B32);
  large.l2Promotion = 3;
  const TensorMap again = decodeTensorMap(encode(large).data());
  CHECK_EQ(again.dims[0], uint64_t{1} << 32);
  CHECK_EQ(again.strides[1], (uint64_t{1} << 40) - 16);
  CHECK_EQ(again.box[1], 256u);
  CHECK(again.element == TensorElement::TF32Ftz);
  CHECK_EQ(again.l2Promotion, 3);
}

TEST("tma", "illegal tensor maps") {
  const auto decode = [](const TensorMap& map) { return decodeTensorMap(encode(map).data()); };
  const TensorMap good = map2d(0x1000, TensorElement::U16, 64, 64, 128, 64, 8, Swizzle::B128);
  TensorMap map = good;
  map.address = 0x1008;
  CHECK_FAULT(Code::TensorMap, "globalAddress 0x1008", decode(map));
  map = good;
  map.box[0] = 65;
  CHECK_FAULT(Code::TensorMap, "130 bytes, not a multiple of 16", decode(map));
  map.box[0] = 72;
  CHECK_FAULT(Code::TensorMap, "more than the span of swizzle 128B", decode(map));
  map = good;
  map.nanFill = true;
  CHECK_FAULT(Code::TensorMap, "NaN fill needs a float element, not u16", decode(map));
  map = map2d(0x1000, TensorElement::F32, 256, 256, 1024, 256, 256, Swizzle::None);
  CHECK_FAULT(Code::TensorMap, "262144 bytes", decode(map));
  auto bytes = encode(good);
  bytes[8] |= 0x70;  // rank 8
  CHECK_FAULT(Code::TensorMap, "rank is 8", decodeTensorMap(bytes.data()));
  bytes = encode(good);
  bytes[9] |= 0x08;
  CHECK_FAULT(Code::TensorMap, "interleaved channels of rank 2", decodeTensorMap(bytes.data()));
  bytes = encode(good);
  bytes[8] |= 0x01;
  CHECK_FAULT(Code::TensorMap, "im2col of rank 2", decodeTensorMap(bytes.data()));
  // Packed elements.
  const TensorMap dense = map2d(0x1000, TensorElement::B4x16, 66, 8, 48, 32, 8, Swizzle::B32);
  CHECK_EQ(decode(dense).transactionBytes(), 128u);
  map = dense;
  map.dims[0] = 65;
  CHECK_FAULT(Code::TensorMap, "dimension 0 is 65, which b4x16 needs to be even", decode(map));
  map = dense;
  map.box[0] = 40;
  CHECK_FAULT(Code::TensorMap, "20 bytes, not a multiple of 16", decode(map));
  const TensorMap padded = map2d(0x1000, TensorElement::B6x16P32, 256, 8, 192, 128, 8, Swizzle::B128);
  CHECK_EQ(decode(padded).transactionBytes(), 768u);
  map = padded;
  map.address = 0x1010;
  CHECK_FAULT(Code::TensorMap, "globalAddress is 4112, which b6x16_p32 needs to be a multiple of 32", decode(map));
  map = padded;
  map.strides[1] = 208;
  CHECK_FAULT(Code::TensorMap, "the stride of dimension 1 is 208", decode(map));
  map = padded;
  map.dims[0] = 192;
  CHECK_FAULT(Code::TensorMap, "dimension 0 is 192, which b6x16_p32 needs to be a multiple of 128", decode(map));
  map = padded;
  map.box[0] = 64;
  CHECK_FAULT(Code::TensorMap, "a row of the box has 64 elements, b6x16_p32 takes 128", decode(map));
  map = padded;
  map.swizzle = Swizzle::B64;
  CHECK_FAULT(Code::TensorMap, "b6x16_p32 does not go with swizzle 64B", decode(map));
  map = padded;
  map.nanFill = true;
  CHECK_FAULT(Code::TensorMap, "NaN fill needs a float element, not b6x16_p32", decode(map));
  bytes = encode(good);
  bytes[9] |= 0x07;
  bytes[8] |= 0x80;  // element code 15
  CHECK_FAULT(Code::TensorMap, "element type code 15", decodeTensorMap(bytes.data()));
  bytes = encode(good);
  bytes[11] = 0x80;
  CHECK_FAULT(Code::TensorMap, "neither a tiled map nor im2col", decodeTensorMap(bytes.data()));
  const std::array<uint8_t, 128> zero{};
  CHECK_FAULT(Code::TensorMap, "a row of the box has 1 bytes", decodeTensorMap(zero.data()));
}

TEST("tma", "the measured dump of a 48-byte box in 128B mode") {
  Global global(64 * 8 * 2);
  for (uint32_t row = 0; row < 8; ++row) {
    for (uint32_t column = 0; column < 64; ++column) {
      const uint16_t value = static_cast<uint16_t>(256 * row + column);
      std::memcpy(global.data() + 128 * row + 2 * column, &value, 2);
    }
  }
  const TensorMap map = map2d(global.address, TensorElement::U16, 64, 8, 128, 24, 8, Swizzle::B128);
  SharedMemory shared = sharedMemory();
  const int32_t origin[2] = {0, 0};
  CHECK_EQ(validateTensorLoad(map, 2, origin, 0x400, shared), 384u);
  executeTensorLoad(map, origin, 0x400, shared, *global.view);
  const char* expected[8] = {
      "0000 0008 0010 ---- ---- ---- ---- ----", "0108 0100 ---- 0110 ---- ---- ---- ----",
      "0210 ---- 0200 0208 ---- ---- ---- ----", "---- 0310 0308 0300 ---- ---- ---- ----",
      "---- ---- ---- ---- 0400 0408 0410 ----", "---- ---- ---- ---- 0508 0500 ---- 0510",
      "---- ---- ---- ---- 0610 ---- 0600 0608", "---- ---- ---- ---- ---- 0710 0708 0700"};
  for (uint32_t row = 0; row < 8; ++row) {
    std::ostringstream line;
    for (uint32_t chunk = 0; chunk < 8; ++chunk) {
      const uint32_t at = 0x400 + 128 * row + 16 * chunk;
      uint16_t value;
      std::memcpy(&value, &shared.bytes[at], 2);
      if (chunk > 0) line << ' ';
      if (shared.valid[at]) {
        line << std::hex << std::setw(4) << std::setfill('0') << value;
      } else {
        line << "----";
        CHECK_EQ(value, 0xcdcd);
      }
    }
    CHECK(line.str() == expected[row]);
  }
}

TEST("tma", "loads of random maps against an element-wise walk") {
  Random random{7};
  Global global(1 << 16);
  for (uint64_t i = 0; i < global.bytes; ++i) global.data()[i] = static_cast<uint8_t>(random.next());
  for (int round = 0; round < 1500; ++round) {
    const TensorMap map = decodeTensorMap(encode(randomMap(random, global, false)).data());
    int32_t c[5] = {};
    for (uint32_t i = 0; i < map.rank; ++i) c[i] = random.between(-8, 24);
    const int32_t quantum = static_cast<int32_t>(16 / map.elementBytes);
    c[0] = random.between(-4, 10) * quantum;
    const uint32_t dst = 0x400 + 128 * random.below(20);
    SharedMemory shared = sharedMemory(), expected = sharedMemory();
    uint32_t bytes = 0;
    walkBox(map, c, dst, false, [&](uint32_t at, bool inside, uint64_t address) {
      for (uint32_t i = 0; i < map.elementBytes; ++i) {
        expected.bytes[at + i] = inside        ? *global.view->find(address + i, 1)
                                 : map.nanFill ? (i % 2 ? 0x7f : 0xf7)
                                               : 0;
        expected.valid[at + i] = 1;
      }
      if (inside && map.element == TensorElement::TF32) {
        uint32_t word;
        std::memcpy(&word, &expected.bytes[at], 4);
        const float value = std::bit_cast<float>(word);
        // Independent rounding: through a double scaled to the 10-bit fraction.
        if (std::isnan(value)) {
          word = 0x7fffe000;
        } else if (std::isfinite(value) && value != 0) {
          const int e = std::max(std::ilogb(value), -126);
          word = std::bit_cast<uint32_t>(static_cast<float>(
              std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(value), 10 - e)), e - 10)));
        }
        std::memcpy(&expected.bytes[at], &word, 4);
      }
      bytes += map.elementBytes;
    });
    CHECK_EQ(validateTensorLoad(map, map.rank, c, dst, shared), bytes);
    executeTensorLoad(map, c, dst, shared, *global.view);
    CHECK(shared.bytes == expected.bytes);
    CHECK(shared.valid == expected.valid);
  }
}

TEST("tma", "packed elements, as an element-wise walk writes and reads them") {
  Random random{9};
  Global global(1 << 16);
  const auto bitsAt = [](const uint8_t* bytes, uint64_t at, uint32_t count) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < count; ++i) value |= uint32_t(bytes[(at + i) / 8] >> ((at + i) % 8) & 1) << i;
    return value;
  };
  for (int round = 0; round < 600; ++round) {
    const TensorElement element = static_cast<TensorElement>(static_cast<uint32_t>(TensorElement::B4x16) + random.below(3));
    const uint32_t bits = element == TensorElement::B6x16P32 ? 6 : 4;
    const bool isPadded = element != TensorElement::B4x16;
    for (uint64_t i = 0; i < global.bytes; ++i) global.data()[i] = static_cast<uint8_t>(random.next());
    static constexpr Swizzle kSwizzles[] = {Swizzle::None, Swizzle::B128, Swizzle::B128Atom32, Swizzle::B32};
    TensorMap map = map2d(global.address + 32 * random.below(4), element, 0, 1 + random.below(10), 32 * (8 + random.below(4)),
                          isPadded ? 128 : 32, 1 + random.below(12), kSwizzles[random.below(isPadded ? 3 : 4)]);
    map.dims[0] = isPadded ? 128 * (1 + random.below(2)) : 2 * (1 + random.below(60));
    map = decodeTensorMap(encode(map).data());
    const int32_t c[2] = {random.between(-1, 2) * (isPadded ? 128 : 32), random.between(-2, 4)};
    const uint32_t dst = 0x400 + 128 * random.below(8), pitch = isPadded ? 128 : map.swizzle == Swizzle::None ? 16 : map.swizzle == Swizzle::B32 ? 32 : 128;
    SharedMemory shared = sharedMemory(), expected = sharedMemory();
    const auto each = [&](auto visit) {
      for (uint32_t row = 0; row < map.box[1]; ++row) {
        for (uint32_t e = 0; e < map.box[0]; ++e) {
          const int64_t x = c[0] + static_cast<int64_t>(e), y = c[1] + static_cast<int64_t>(row);
          const bool inside = x >= 0 && y >= 0 && x < static_cast<int64_t>(map.dims[0]) && y < static_cast<int64_t>(map.dims[1]);
          visit(row, e, inside, inside ? static_cast<uint64_t>(y) * map.strides[1] * 8 + static_cast<uint64_t>(x) * bits : 0);
        }
      }
    };
    const uint8_t* data = global.view->find(map.address, 1);
    each([&](uint32_t row, uint32_t e, bool inside, uint64_t at) {
      const uint32_t value = inside ? bitsAt(data, at, bits) : 0;
      const uint32_t bit = e % (isPadded ? 16 : 32) * bits, chunk = dst + row * pitch + (isPadded ? e / 16 * 16 : 0);
      for (uint32_t i = 0; i < bits; ++i) {
        const uint32_t to = swizzleByHand(map.swizzle, chunk) + (bit + i) / 8, shift = (bit + i) % 8;
        expected.bytes[to] = static_cast<uint8_t>((expected.bytes[to] & ~(1u << shift)) | (value >> i & 1) << shift);
        expected.valid[to] = 1;
      }
    });
    CHECK_EQ(validateTensorLoad(map, 2, c, dst, shared), map.box[1] * (element == TensorElement::B4x16 ? 16u : bits * 16));
    executeTensorLoad(map, c, dst, shared, *global.view);
    CHECK(shared.bytes == expected.bytes);
    CHECK(shared.valid == expected.valid);
    // Stores: 4-bit elements as they are, 6-bit elements from the low bits of one byte each.
    if (element == TensorElement::B4x16P64 || c[0] < 0 || c[1] < 0) continue;
    for (uint32_t i = 0; i < shared.bytes.size(); ++i) shared.bytes[i] = static_cast<uint8_t>(random.next());
    std::fill(shared.valid.begin(), shared.valid.end(), uint8_t{1});
    executeTensorStore(map, c, dst, shared, *global.view);
    each([&](uint32_t row, uint32_t e, bool inside, uint64_t at) {
      if (!inside) return;
      const uint32_t byte = dst + row * pitch + (isPadded ? e : e / 2), place = swizzleByHand(map.swizzle, byte / 16 * 16) + byte % 16;
      CHECK_EQ(bitsAt(data, at, bits), bitsAt(&shared.bytes[place], isPadded ? 0 : e % 2 * 4, bits));
    });
  }
  const SharedMemory shared = sharedMemory();
  const TensorMap unpacked = map2d(0x1000, TensorElement::B4x16P64, 256, 8, 128, 128, 8, Swizzle::B128);
  const int32_t origin[2] = {0, 0}, half[2] = {64, 0};
  CHECK_FAULT(Code::TensorMap, "b4x16_p64 is for loads only", validateTensorStore(unpacked, 2, origin, 0x400, shared));
  CHECK_FAULT(Code::TensorMap, "coordinate 0 is not a multiple of 128", validateTensorLoad(unpacked, 2, half, 0x400, shared));
  CHECK_FAULT(Code::TensorMap, "this reduction is not defined",
              validateTensorReduce(map2d(0x1000, TensorElement::B4x16, 64, 8, 32, 32, 8, Swizzle::None), 2, origin, 0x400,
                                   shared, Reduction::Add));
}

TEST("tma", "stores and reductions of random maps against an element-wise walk") {
  Random random{8};
  Global global(1 << 16), reference(1 << 16);
  for (int round = 0; round < 1500; ++round) {
    std::memset(global.data(), 0x11, global.bytes);
    TensorMap map = randomMap(random, global, true);
    const bool reduces = round % 3 == 0;
    if (reduces)
      map.element = TensorElement::U32, map.elementBytes = 4, map.box[0] = 4, map.strides[0] = 4,
      map.dims[0] = 1 + random.below(50), map.nanFill = false;
    if (reduces) {
      uint64_t extent = (map.dims[0] * 4 + 15) / 16 * 16;
      for (uint32_t i = 1; i < map.rank; ++i) extent = (map.strides[i] = extent + 16) * map.dims[i];
    }
    map = decodeTensorMap(encode(map).data());
    int32_t c[5] = {};
    for (uint32_t i = 0; i < map.rank; ++i) c[i] = random.between(0, 12);
    c[0] = random.between(0, 8) * static_cast<int32_t>(16 / map.elementBytes);
    const uint32_t source = 0x400 + 128 * random.below(20);
    SharedMemory shared = sharedMemory();
    for (uint32_t i = 0; i < shared.size(); ++i)
      shared.bytes[i] = static_cast<uint8_t>(random.next()), shared.valid[i] = random.below(100) != 0;
    std::memcpy(reference.data(), global.data(), global.bytes);
    uint32_t invalid = 0, written = 0;
    walkBox(map, c, source, true, [&](uint32_t at, bool inside, uint64_t address) {
      if (!inside) return;
      uint8_t* target = reference.data() + (address - global.address);
      if (reduces) {
        uint32_t old, value;
        std::memcpy(&old, target, 4);
        std::memcpy(&value, &shared.bytes[at], 4);
        old += value;
        std::memcpy(target, &old, 4);
      } else {
        std::memcpy(target, &shared.bytes[at], map.elementBytes);
      }
      written += map.elementBytes;
    });
    walkBox(map, c, source, false, [&](uint32_t at, bool inside, uint64_t) {
      for (uint32_t i = 0; inside && i < map.elementBytes; ++i) invalid += shared.valid[at + i] == 0;
    });
    TensorStoreReport report;
    if (reduces) {
      validateTensorReduce(map, map.rank, c, source, shared, Reduction::Add);
      report = executeTensorReduce(map, c, source, shared, *global.view, Reduction::Add);
    } else {
      validateTensorStore(map, map.rank, c, source, shared);
      report = executeTensorStore(map, c, source, shared, *global.view);
    }
    CHECK_EQ(report.bytesWritten, written);
    CHECK_EQ(report.invalidBytes, invalid);
    if (invalid != 0) CHECK_EQ(shared.valid[report.firstInvalidAddress], 0);
    CHECK(std::memcmp(global.data(), reference.data(), global.bytes) == 0);
  }
}

TEST("tma", "a store clips dimension 0 to 16 bytes") {
  struct Case {
    TensorElement element;
    uint64_t width;
    uint32_t bytes;
  };
  for (const Case& c :
       {Case{TensorElement::U16, 33, 80}, Case{TensorElement::U16, 36, 80}, Case{TensorElement::U16, 39, 80},
        Case{TensorElement::U16, 41, 96}, Case{TensorElement::U8, 5, 16}, Case{TensorElement::F32, 9, 48}}) {
    Global global(4096);
    std::memset(global.data(), 0xee, 4096);
    const uint32_t es = traitsOf(c.element).bytes;
    const TensorMap map = map2d(global.address, c.element, c.width, 2, 256, 128 / es, 4, Swizzle::None);
    SharedMemory shared = sharedMemory();
    std::memset(&shared.bytes[0x400], 0x55, 512);
    const int32_t origin[2] = {0, 0};
    CHECK_EQ(executeTensorStore(map, origin, 0x400, shared, *global.view).bytesWritten, 2 * c.bytes);
    for (uint32_t i = 0; i < 4096; ++i)
      CHECK_EQ(global.data()[i], i < 512 && i % 256 < c.bytes ? 0x55 : 0xee);
    const int32_t beyond[2] = {static_cast<int32_t>(128 / es), 0};
    CHECK_EQ(executeTensorStore(map, beyond, 0x400, shared, *global.view).bytesWritten, 0u);
  }
}

TEST("tma", "faults name what is wrong") {
  Global global(4096);
  SharedMemory shared = sharedMemory();
  const TensorMap map = map2d(global.address, TensorElement::U16, 64, 40, 128, 64, 8, Swizzle::B128);
  const int32_t odd[2] = {1, 0}, negative[2] = {0, -3}, origin[2] = {0, 0}, low[2] = {0, 28};
  CHECK_FAULT(Code::TensorMap, "{1, 0}: coordinate 0 times 2 bytes",
              validateTensorLoad(map, 2, odd, 0x400, shared));
  CHECK_FAULT(Code::TensorMap, "the instruction has 3 coordinates",
              validateTensorLoad(map, 3, origin, 0x400, shared));
  CHECK_FAULT(Code::TensorMap, "negative coordinate {0, -3}",
              validateTensorStore(map, 2, negative, 0x400, shared));
  CHECK_EQ(validateTensorLoad(map, 2, negative, 0x400, shared), 1024u);
  CHECK_FAULT(Code::Misaligned, "0x440", validateTensorLoad(map, 2, origin, 0x440, shared));
  CHECK_FAULT(Code::SharedOutOfBounds, "ends at shared address 0x39100",
              validateTensorLoad(map, 2, origin, 0x38d00, shared));
  // 40 rows of 128 bytes do not fit the 4096 bytes of the allocation.
  CHECK_FAULT(Code::OutOfBounds, "at coordinates {0, 28} touches 128 bytes",
              executeTensorLoad(map, low, 0x400, shared, *global.view));
  CHECK_FAULT(Code::OutOfBounds, "tensor store of the 64x40 u16 map",
              executeTensorStore(map, low, 0x400, shared, *global.view));
  CHECK_FAULT(Code::TensorMap, "reduction is not defined",
              validateTensorReduce(map, 2, origin, 0x400, shared, Reduction::Add));
}

TEST("tma", "arithmetic of reductions") {
  const auto reduce32 = [](TensorElement element, Reduction operation, uint32_t old, uint32_t value) {
    alignas(16) uint8_t a[16] = {}, b[16] = {};
    std::memcpy(a, &old, 4);
    std::memcpy(b, &value, 4);
    reduceElements(element, operation, a, b, 1);
    std::memcpy(&old, a, 4);
    return old;
  };
  const auto reduce16 = [&](TensorElement element, Reduction operation, uint16_t old, uint16_t value) {
    return reduce32(element, operation, old, value) & 0xffff;
  };
  const uint32_t subnormal = 0x00000123;
  CHECK_EQ(reduce32(TensorElement::F32, Reduction::Add, subnormal, subnormal), 2 * subnormal);
  CHECK_EQ(reduce32(TensorElement::F32Ftz, Reduction::Add, subnormal | 0x80000000, subnormal), 0u);
  CHECK_EQ(reduce32(TensorElement::F32, Reduction::Add, 0xff800000, 0x7f800000), 0x7fffffffu);
  CHECK_EQ(reduce32(TensorElement::U32, Reduction::Inc, 5, 5), 0u);
  CHECK_EQ(reduce32(TensorElement::U32, Reduction::Inc, 4, 5), 5u);
  CHECK_EQ(reduce32(TensorElement::U32, Reduction::Dec, 0, 5), 5u);
  CHECK_EQ(reduce32(TensorElement::U32, Reduction::Dec, 7, 5), 5u);
  CHECK_EQ(reduce32(TensorElement::U32, Reduction::Dec, 3, 5), 2u);
  CHECK_EQ(reduce32(TensorElement::S32, Reduction::Min, 0xffffffff, 1), 0xffffffffu);
  CHECK_EQ(reduce32(TensorElement::U32, Reduction::Min, 0xffffffff, 1), 1u);
  CHECK_EQ(reduce32(TensorElement::U32, Reduction::Xor, 0xff, 0x0f), 0xf0u);
  CHECK_EQ(reduce16(TensorElement::F16, Reduction::Max, 0x7e00, 0xc000), 0xc000u);  // the NaN loses
  CHECK_EQ(reduce16(TensorElement::F16, Reduction::Min, 0x3c00, 0xfe01), 0x3c00u);
  CHECK_EQ(reduce16(TensorElement::F16, Reduction::Max, 0x7e00, 0x7e00), 0x7fffu);
  CHECK_EQ(reduce16(TensorElement::F16, Reduction::Max, 0x8000, 0x0000), 0x0000u);
  CHECK_EQ(reduce16(TensorElement::F16, Reduction::Min, 0x0000, 0x8000), 0x8000u);
  CHECK_EQ(reduce16(TensorElement::BF16, Reduction::Add, 0x3f80, 0x3b80), 0x3f80u);  // 1 + 2^-8: tie to even
  CHECK_EQ(reduce16(TensorElement::BF16, Reduction::Add, 0x3f81, 0x3b80), 0x3f82u);
}

TEST("tma", "random bytes as tensor maps fault or work") {
  Random random{9};
  Global global(1 << 16);
  SharedMemory shared = sharedMemory();
  uint32_t worked = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = encode(randomMap(random, global, false));
    for (uint32_t flips = random.below(4); flips > 0; --flips)
      bytes[random.below(64)] ^= 1 << random.below(8);
    int32_t c[5];
    for (int32_t& x : c)
      x = random.below(4) == 0 ? static_cast<int32_t>(random.next()) & ~15 : 16 * random.between(-1, 2);
    try {
      const TensorMap map = decodeTensorMap(bytes.data());
      const uint32_t at = 128 * random.below(1900);
      validateTensorLoad(map, map.rank, c, at, shared);
      executeTensorLoad(map, c, at, shared, *global.view);
      validateTensorStore(map, map.rank, c, at, shared);
      executeTensorStore(map, c, at, shared, *global.view);
      ++worked;
    } catch (const Fault& fault) {
      CHECK(!fault.message.empty());
    }
  }
  CHECK(worked > 100);
}
