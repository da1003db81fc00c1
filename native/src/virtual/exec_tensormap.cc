// tensormap.replace and its proxy fences (PTX ISA 9.7.9.28): edits of the 128-byte map in the layout hardware
// reads.
#include "exec_async.h"

namespace ktl {
namespace {

enum Field : uint32_t {
  kAddress,
  kRank,
  kBox,
  kDim,
  kStride,
  kElementStride,
  kType,
  kInterleave,
  kSwizzle,
  kFill,
  kAtomicity
};
constexpr const char* kFields[] = {"global_address", "rank",           "box_dim",  "global_dim",
                                   "global_stride",  "element_stride", "elemtype", "interleave_layout",
                                   "swizzle_mode",   "fill_mode",      "swizzle_atomicity"};

bool hasOrdinal(uint32_t field) { return field >= kBox && field <= kElementStride; }

// Of fields that the PTX ISA bounds (9.7.9.28).
const Range* rangeOf(uint32_t field) {
  static constexpr Range kRanges[] = {{"rank", 0, 4},          {"elemtype", 0, 15},  {"interleave_layout", 0, 2},
                                      {"swizzle_mode", 0, 3},  {"fill_mode", 0, 1},  {"swizzle_atomicity", 0, 3}};
  switch (field) {
    case kRank: return &kRanges[0];
    case kType: return &kRanges[1];
    case kInterleave: return &kRanges[2];
    case kSwizzle: return &kRanges[3];
    case kFill: return &kRanges[4];
    case kAtomicity: return &kRanges[5];
    default: return nullptr;
  }
}

void setBits(uint32_t& word, uint32_t at, uint32_t count, uint32_t value) {
  const uint32_t mask = ((1u << count) - 1) << at;
  word = (word & ~mask) | (value << at & mask);
}

void replace(uint8_t* map, uint32_t field, uint32_t index, uint64_t value) {
  uint32_t words[32];
  std::memcpy(words, map, sizeof words);
  const auto small = static_cast<uint32_t>(value);
  switch (field) {
    case kAddress: std::memcpy(words, &value, 8); break;
    case kRank: setBits(words[2], 4, 3, small); break;
    case kType:
      setBits(words[2], 7, 4, small == 11 ? 7 : small == 12 ? 8 : small > 12 ? small - 2 : small);
      setBits(words[2], 16, 1, small == 11 || small == 12);
      break;
    case kInterleave: setBits(words[2], 11, 2, small); break;
    case kSwizzle: setBits(words[2], 13, 2, small); break;
    case kAtomicity: setBits(words[2], 19, 3, small); break;
    case kFill: setBits(words[2], 15, 1, small); break;
    case kStride:
      words[3 + index] = static_cast<uint32_t>(value >> 4);
      setBits(words[7], 4 * index, 4, static_cast<uint32_t>(value >> 36));
      break;
    case kDim: words[8 + index] = small - 1; break;
    case kElementStride: setBits(words[13], 3 * index, 3, small - 1); break;
    case kBox:
      if (index == 0)
        setBits(words[13], 24, 8, small - 1);
      else
        setBits(words[14], 8 * (index - 1), 8, small - 1);
      break;
  }
  std::memcpy(map, words, sizeof words);
}

// src: map, value (8 bytes); aux: field | index << 8
Flow replaceField(Warp& w, const Op& op, uint32_t mask) {
  Access access;
  gatherAddresses(w, op, mask, 0, access);
  resolve(w, op, mask, 128, 64, true, access);
  forLanes(mask, [&](uint32_t i) {
    replace(access.data[i], op.aux & 0xff, op.aux >> 8, w.at<uint64_t>(op.src[1])[i]);
  });
  return Flow::Next;
}

Flow copyMap(Warp& w, const Op& op, uint32_t mask) {  // one copy for the warp
  const uint32_t lane = static_cast<uint32_t>(std::countr_zero(mask));
  uint8_t* to = globalAt(w, laneAddress(w, op, 0, lane), 128, true);
  uint32_t offset;
  Cta& cta = sharedAt(*w.cta, sharedAddress(laneAddress(w, op, 1, lane)), 128, false, offset);
  std::memcpy(to, cta.shared.bytes.data() + offset, 128);
  w.faultLane = ~0u;
  return Flow::Next;
}

}  // namespace

void addTensorMapRows(Table& t) {
  for (uint32_t field = 0; field < std::size(kFields); ++field)
    t.push_back({"tensormap",
                 std::string("replace tile ") + kFields[field] + " global|shared::cta? b1024 b32|b64",
                 [field](Builder& b) {
                   setSpace(b);
                   b.address(0, 0);
                   const bool indexed = b.operands() > 2;
                   const uint32_t index =
                       indexed ? static_cast<uint32_t>(b.immediate(1, {"the ordinal", 0, field == kStride ? 3 : 4})) : 0;
                   if (indexed != hasOrdinal(field)) b.refuse(indexed ? "the field has no ordinal" : "the ordinal is missing");
                   if (const Range* range = rangeOf(field)) b.bound(indexed ? 2 : 1, *range);
                   b.op.src[1] = b.source(indexed ? 2 : 1, 8);
                   b.op.aux = field | index << 8;
                   b.op.run = &replaceField;
                 }});
  t.push_back({"tensormap",
               "cp_fenceproxy global shared::cta tensormap::generic release cta|cluster|gpu|sys sync aligned",
               [](Builder& b) {
                 b.address(0, 0);
                 b.address(1, 1);
                 b.op.flags |= kAligned;
                 b.op.run = &copyMap;
               }});
}

}  // namespace ktl
