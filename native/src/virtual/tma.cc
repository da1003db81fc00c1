#include "tma.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "formats.h"

namespace ktl {
namespace {

constexpr uint32_t kChunk = 16;

std::string coordinateText(const TensorMap& map, const int32_t* coordinates) {
  std::string text = "{";
  for (uint32_t i = 0; i < map.coordinates(); ++i) text += (i ? ", " : "") + std::to_string(coordinates[i + map.sliced]);
  return text + "}";
}

// An im2col access begins within the bounding box, which for stores lies within the tensor (illegal instructions on H200). Along W
// (PTX ISA 5.5.5.1) it may begin left of it, and H and D are not bounded.
void validatePixels(const TensorMap& map, const int32_t* coordinates, bool isStore) {
  const bool along = map.walk != Walk::Im2col;
  const uint32_t bits = 16 / map.spatial();
  for (uint32_t d = 1; d <= (along ? 1 : map.spatial()); ++d) {
    if (!along && map.offsets[d - 1] >> bits)
      throw Fault{Code::TensorMap, "the offset " + std::to_string(map.offsets[d - 1]) + " along " + "WHD"[d - 1] + " does not fit into " +
                                       std::to_string(bits) + " bits, in the " + describe(map)};
    const int64_t low = map.lower[d - 1], high = static_cast<int64_t>(map.dims[d]) - 1 + map.upper[d - 1];
    if ((coordinates[d] < low && !along) || coordinates[d] > high)
      throw Fault{Code::TensorMap, "the pixels begin at " + coordinateText(map, coordinates) + ", outside of the bounding box, " +
                                       std::to_string(low) + " to " + std::to_string(high) + " along " + "WHD"[d - 1] + ", in the " +
                                       describe(map)};
    if (isStore && (low < 0 || map.upper[d - 1] > 0))
      throw Fault{Code::TensorMap, "a store whose bounding box reaches out of the " + describe(map)};
  }
}

void validateAccess(const TensorMap& map, uint32_t rank, const int32_t* coordinates, uint32_t sharedAddress,
                    const SharedMemory& shared, bool isStore) {
  if (map.walk == Walk::FourRows && (map.rank != 2 || map.box[1] != 1)) {
    throw Fault{Code::TensorMap, "four rows apart need a map of rank 2 whose box is one row: " + describe(map)};
  }
  if (map.im2col != (map.walk >= Walk::Im2col)) {
    throw Fault{Code::TensorMap, std::string(map.im2col ? "a tiled copy through an im2col map: " : "an im2col copy through a tiled map: ") +
                                     describe(map)};
  }
  if (rank != map.coordinates()) {
    throw Fault{Code::TensorMap, "the instruction has " + std::to_string(rank) +
                                     " coordinates, the map is of rank " + std::to_string(map.coordinates()) + ": " +
                                     describe(map)};
  }
  // Elements in 16 bytes; padded ones are fetched by rows of boxes.
  const uint32_t unit = map.padded() ? map.box[0] : 128 / traitsOf(map.element).bits;
  if (coordinates[0] % static_cast<int32_t>(unit) != 0) {
    throw Fault{Code::TensorMap,
                "the box starts at " + coordinateText(map, coordinates) + ": coordinate 0 " +
                    (map.elementBytes
                         ? "times " + std::to_string(map.elementBytes) + " bytes is not a multiple of 16"
                         : "is not a multiple of " + std::to_string(unit)) +
                    ", in the " + describe(map)};
  }
  if (isStore) {
    for (uint32_t i = 0; i < map.coordinates() + map.sliced; ++i) {
      if (coordinates[i] < 0) {
        throw Fault{Code::TensorMap, "a store starts at the negative coordinate " +
                                         coordinateText(map, coordinates) + " of the " + describe(map)};
      }
    }
  }
  if (map.im2col) validatePixels(map, coordinates, isStore);
  if (sharedAddress % 128 != 0) {
    throw Fault{Code::Misaligned,
                "shared address " + hex(sharedAddress) + " of a tensor copy is not a multiple of 128"};
  }
  // The XOR never leaves the pattern's block, so the footprint may only grow to the end of the last pattern
  // row.
  const uint64_t bytes = map.pitch() * uint64_t{map.rowCount()}, end = sharedAddress + bytes;
  if (sharedAddress < kReservedSharedBytes) {
    throw Fault{Code::SharedOutOfBounds, "the box of the " + describe(map) + " begins at shared address " +
                                             hex(sharedAddress) + ", the kernel's own begins at " +
                                             hex(kReservedSharedBytes)};
  }
  if (!shared.holds(sharedAddress, bytes)) {
    throw Fault{Code::SharedOutOfBounds, "the box of the " + describe(map) + " ends at shared address " +
                                             hex(end) + ", shared memory ends at " + hex(shared.size())};
  }
}

// One row of the box: where it lies in global memory (all coordinates but the innermost).
struct BoxRow {
  bool inside;       // every outer coordinate is within the tensor
  uint64_t address;  // of element 0 of the tensor row
  uint32_t shared;   // unswizzled shared address of the box row
};

BoxRow rowAt(const TensorMap& map, const std::array<int64_t, kMaxTensorRank>& at, uint32_t shared) {
  BoxRow row{true, map.address, shared};
  for (uint32_t d = 1; d < map.rank; ++d) {
    row.inside &= at[d] >= 0 && static_cast<uint64_t>(at[d]) < map.dims[d];
    row.address += static_cast<uint64_t>(at[d]) * map.strides[d];
  }
  return row;
}

// Four rows of their own.
template <class Visit>
void forEachOfFour(const TensorMap& map, const int32_t* coordinates, uint32_t shared, Visit visit) {
  for (uint32_t i = 1; i < kMaxCoordinates; ++i, shared += map.pitch()) visit(rowAt(map, {0, coordinates[i]}, shared));
}

// In box order, dimension 1 fastest.
template <class Visit>
void forEachOfBox(const TensorMap& map, const int32_t* coordinates, uint32_t shared, Visit visit) {
  std::array<int64_t, kMaxTensorRank> at{};
  for (uint32_t d = 0; d < map.rank; ++d) at[d] = coordinates[d];
  std::array<uint32_t, kMaxTensorRank> row{};
  for (uint32_t d = 0; d < map.rank; shared += map.pitch()) {
    visit(rowAt(map, at, shared));
    for (d = 1; d < map.rank; ++d) {
      at[d] += map.elementStrides[d];
      if (++row[d] < map.rows(d)) break;
      at[d] = coordinates[d];
      row[d] = 0;
    }
  }
}

// Pixels of images (PTX ISA 5.5.4): from the start, W fastest, each dimension from its lower to its upper corner, then the next
// image. Offsets are added to every pixel; what they lead out of the tensor is filled. Along W (5.5.5), H and D stay.
template <class Visit>
void forEachPixel(const TensorMap& map, const int32_t* coordinates, uint32_t shared, Visit visit) {
  const bool along = map.walk != Walk::Im2col;
  const uint32_t images = map.rank - 1, moving = along ? 1 : map.spatial();
  std::array<int64_t, kMaxTensorRank> at{};
  for (uint32_t d = 0; d < map.rank; ++d) at[d] = coordinates[d];
  const auto next = [&] {
    for (uint32_t d = 1; d <= moving; ++d) {
      at[d] += map.elementStrides[d];
      if (at[d] < static_cast<int64_t>(map.dims[d]) + map.upper[d - 1]) return;
      at[d] = map.lower[d - 1];
    }
    at[images] += map.elementStrides[images];
  };
  const auto pixel = [&] {
    auto from = at;
    for (uint32_t d = 1; d <= moving; ++d) from[d] += map.offsets[along ? 1 : d - 1];
    visit(rowAt(map, from, shared));
    shared += map.pitch();
    next();
  };
  // Every so many pixels of the forms along W are followed by a halo: the pixels behind them, where the next ones begin again.
  const uint32_t group = map.walk == Walk::Im2colW128 ? 32 : map.pixels;
  const uint32_t pixels = map.walk == Walk::Im2colW128 ? 128 : map.pixels;
  for (uint32_t done = 0; done < pixels; done += group) {
    for (uint32_t i = 0; i < group; ++i) pixel();
    const auto behind = at;
    for (int32_t i = 0; along && i < map.offsets[0]; ++i) pixel();
    at = behind;
  }
}

// Calls visit(row) for the rows of an access, in the order of their places in shared memory.
template <class Visit>
void forEachRow(const TensorMap& map, const int32_t* coordinates, uint32_t shared, Visit visit) {
  switch (map.walk) {
    case Walk::Tile: return forEachOfBox(map, coordinates, shared, visit);
    case Walk::FourRows: return forEachOfFour(map, coordinates, shared, visit);
    default: return forEachPixel(map, coordinates, shared, visit);
  }
}

uint8_t* globalRow(const TensorMap& map, const int32_t* coordinates, const GlobalView& global,
                   uint64_t address, uint64_t bytes, const char* operation) {
  uint8_t* pointer = global.find(address, bytes);
  if (pointer == nullptr) {
    throw Fault{Code::OutOfBounds, std::string("tensor ") + operation + " of the " + describe(map) +
                                       " at coordinates " + coordinateText(map, coordinates) + " touches " +
                                       std::to_string(bytes) + " bytes at " + hex(address) + ": " +
                                       global.describe(address, bytes)};
  }
  return pointer;
}

void fillPattern(const TensorMap& map, uint8_t* out, uint32_t bytes) {
  if (!map.nanFill) {
    std::memset(out, 0, bytes);
    return;
  }
  for (uint32_t i = 0; i + 2 <= bytes; i += 2) {
    out[i] = 0xf7;
    out[i + 1] = 0x7f;
  }
}

void roundToTf32(uint8_t* data, uint32_t bytes) {
  for (uint32_t i = 0; i + 4 <= bytes; i += 4) {
    uint32_t word;
    std::memcpy(&word, data + i, 4);
    word = tmaTf32(word);
    std::memcpy(data + i, &word, 4);
  }
}

void copyChunk(uint8_t* to, const uint8_t* from, bool flip) {
  std::memcpy(to, from + (flip ? kChunk / 2 : 0), kChunk / 2);
  std::memcpy(to + kChunk / 2, from + (flip ? 0 : kChunk / 2), kChunk / 2);
}

// Copies whole 16-byte chunks between a dense row and its swizzled place.
void scatterRow(const TensorMap& map, const uint8_t* row, uint32_t bytes, uint32_t shared,
                SharedMemory& memory) {
  if (map.swizzle == Swizzle::None) {
    std::memcpy(&memory.bytes[shared], row, bytes);
    std::memset(&memory.valid[shared], 1, bytes);
    return;
  }
  for (uint32_t at = 0; at < bytes; at += kChunk) {
    const uint32_t place = swizzled(map.swizzle, shared + at);
    copyChunk(&memory.bytes[place], row + at, flipped(map.swizzle, place));
    std::memset(&memory.valid[place], 1, kChunk);
  }
}

void gatherRow(const TensorMap& map, const SharedMemory& memory, uint32_t shared, uint32_t bytes,
               uint8_t* row, uint8_t* valid) {
  for (uint32_t at = 0; at < bytes; at += kChunk) {
    const uint32_t place = swizzled(map.swizzle, shared + at);
    copyChunk(row + at, &memory.bytes[place], flipped(map.swizzle, place));
    copyChunk(valid + at, &memory.valid[place], flipped(map.swizzle, place));
  }
}

// The span of a box row that lies inside the tensor along dimension 0, in elements of the row.
struct Span {
  uint64_t first = 0, count = 0;
};
Span innerSpan(const TensorMap& map, const int32_t* coordinates) {
  const int64_t begin = coordinates[0], end = begin + map.box[0];
  const int64_t first = std::max<int64_t>(begin, 0),
                last = std::min<int64_t>(end, static_cast<int64_t>(map.dims[0]));
  if (first >= last) return {};
  return {static_cast<uint64_t>(first - begin), static_cast<uint64_t>(last - first)};
}

constexpr uint32_t kMaxRowBytes = 256 * 8;

// 16 packed elements at the start of each 16-byte chunk; the padding behind them belongs to nobody.
void scatterPadded(const TensorMap& map, const uint8_t* row, uint32_t shared, SharedMemory& memory) {
  const uint32_t used = 2 * traitsOf(map.element).bits;
  for (uint32_t at = 0; at < map.rowBytes(); at += kChunk) {
    const uint32_t place = swizzled(map.swizzle, shared + at);
    std::memcpy(&memory.bytes[place], row + at / kChunk * used, used);
    for (uint32_t i = 0; i < kChunk; ++i) memory.valid[place + i] = i < used;
  }
}

// The low 6 bits of each byte, packed; in place.
void packBytes(uint8_t* row, uint32_t elements) {
  for (uint32_t i = 0; i < elements; i += 4) {
    const uint32_t bits = (row[i] & 63u) | (row[i + 1] & 63u) << 6 | (row[i + 2] & 63u) << 12 | (row[i + 3] & 63u) << 18;
    for (uint32_t b = 0; b < 3; ++b) row[i / 4 * 3 + b] = static_cast<uint8_t>(bits >> 8 * b);
  }
}

// Walks the rows of a store: visit(global pointer, dense row, bytes) for the part that reaches memory.
template <class Write>
TensorStoreReport walkStore(const TensorMap& map, const int32_t* coordinates, uint32_t sharedAddress,
                            const SharedMemory& shared, const GlobalView& global, const char* operation,
                            Write write) {
  TensorStoreReport report;
  const Span span = innerSpan(map, coordinates);  // stores never start before 0, so span.first is 0
  if (span.count == 0) return report;
  const auto inside = static_cast<uint32_t>(map.sharedBytes(span.count));
  const auto roundedUp = [](uint64_t bytes) { return static_cast<uint32_t>((bytes + kChunk - 1) / kChunk * kChunk); };
  const uint32_t written = roundedUp(map.globalBytes(span.count));  // clipping has 16-byte granularity
  alignas(64) uint8_t row[kMaxRowBytes];
  alignas(64) uint8_t valid[kMaxRowBytes];
  forEachRow(map, coordinates, sharedAddress, [&](const BoxRow& at) {
    if (!at.inside) return;
    gatherRow(map, shared, at.shared, roundedUp(inside), row, valid);
    if (std::memchr(valid, 0, inside) != nullptr) {
      for (uint32_t i = 0; i < inside; ++i) {
        if (valid[i] != 0) continue;
        if (report.invalidBytes++ == 0) {
          report.firstInvalidAddress = swizzled(map.swizzle, at.shared + i / kChunk * kChunk) + i % kChunk;
        }
      }
    }
    if (map.padded()) packBytes(row, inside);
    const uint64_t address = at.address + map.globalBytes(static_cast<uint64_t>(coordinates[0]));
    write(globalRow(map, coordinates, global, address, written, operation), row, written);
    report.bytesWritten += written;
  });
  return report;
}

}  // namespace

uint32_t validateTensorLoad(const TensorMap& map, uint32_t rank, const int32_t* coordinates,
                            uint32_t sharedAddress, const SharedMemory& shared) {
  validateAccess(map, rank, coordinates, sharedAddress, shared, false);
  return map.transactionBytes();
}

void validateTensorStore(const TensorMap& map, uint32_t rank, const int32_t* coordinates,
                         uint32_t sharedAddress, const SharedMemory& shared) {
  validateAccess(map, rank, coordinates, sharedAddress, shared, true);
  if (map.element == TensorElement::B4x16P64)
    throw Fault{Code::TensorMap, "b4x16_p64 is for loads only, in the " + describe(map)};
}

void validateTensorReduce(const TensorMap& map, uint32_t rank, const int32_t* coordinates,
                          uint32_t sharedAddress, const SharedMemory& shared, Reduction operation) {
  validateAccess(map, rank, coordinates, sharedAddress, shared, true);
  if (!reductionDefined(map.element, operation)) {
    throw Fault{Code::TensorMap, "this reduction is not defined for the elements of the " + describe(map)};
  }
}

void executeTensorLoad(const TensorMap& map, const int32_t* coordinates, uint32_t sharedAddress,
                       SharedMemory& shared, const GlobalView& global) {
  const auto rowBytes = static_cast<uint32_t>(map.globalBytes(map.box[0]));
  const bool tf32 = map.element == TensorElement::TF32 || map.element == TensorElement::TF32Ftz;
  const Span span = innerSpan(map, coordinates);
  const auto skipped = static_cast<uint32_t>(map.globalBytes(span.first)),
             inside = static_cast<uint32_t>(map.globalBytes(span.count));
  // At most the tensor's size: of what lies outside nothing is read.
  const uint64_t first = map.globalBytes(static_cast<uint64_t>(coordinates[0] + static_cast<int64_t>(span.first)));
  alignas(64) uint8_t row[kMaxRowBytes];
  forEachRow(map, coordinates, sharedAddress, [&](const BoxRow& at) {
    const uint8_t* source = row;
    const bool reads = at.inside && inside != 0;
    if (reads) {
      const uint8_t* data =
          globalRow(map, coordinates, global, at.address + first, inside, "load");
      if (inside == rowBytes && !tf32) {
        source = data;
      } else {
        fillPattern(map, row, rowBytes);
        std::memcpy(row + skipped, data, inside);
        if (tf32) roundToTf32(row + skipped, inside);
      }
    } else {
      fillPattern(map, row, rowBytes);
    }
    if (map.padded())
      scatterPadded(map, source, at.shared, shared);
    else
      scatterRow(map, source, rowBytes, at.shared, shared);
  });
}

std::vector<uint32_t> tensorStoreChunks(const TensorMap& map, const int32_t* coordinates,
                                        uint32_t sharedAddress) {
  std::vector<uint32_t> chunks;
  const auto inside = static_cast<uint32_t>(map.sharedBytes(innerSpan(map, coordinates).count));
  forEachRow(map, coordinates, sharedAddress, [&](const BoxRow& at) {
    if (!at.inside) return;
    for (uint32_t i = 0; i < inside; i += kChunk) chunks.push_back(swizzled(map.swizzle, at.shared + i));
  });
  return chunks;
}

TensorStoreReport executeTensorStore(const TensorMap& map, const int32_t* coordinates, uint32_t sharedAddress,
                                     const SharedMemory& shared, const GlobalView& global) {
  return walkStore(
      map, coordinates, sharedAddress, shared, global, "store",
      [](uint8_t* target, const uint8_t* row, uint32_t bytes) { std::memcpy(target, row, bytes); });
}

TensorStoreReport executeTensorReduce(const TensorMap& map, const int32_t* coordinates,
                                      uint32_t sharedAddress, const SharedMemory& shared,
                                      const GlobalView& global, Reduction operation) {
  return walkStore(map, coordinates, sharedAddress, shared, global, "reduction",
                   [&](uint8_t* target, const uint8_t* row, uint32_t bytes) {
                     reduceElements(map.element, operation, target, row, bytes / map.elementBytes);
                   });
}

}  // namespace ktl
