// mov in all its forms and special registers (PTX ISA 9.7.9.6, 10).
#include <chrono>
#include <map>
#include "cta.h"
#include "exec_lanes.h"

namespace ktl {

namespace {

using Vector = std::array<uint32_t, 3>;

const Cluster& clusterOf(const Warp& w) { return *w.cta->cluster; }
const LaunchConfig& configOf(const Warp& w) { return *clusterOf(w).launch.config; }

// Of a grid of mixed sizes: as if all clusters were like this one.
Vector inClusters(const Vector& ctas, const Vector& extents) {
  return {ctas[0] / extents[0], ctas[1] / extents[1], ctas[2] / extents[2]};
}

Vector threadIndex(const Warp& w, uint32_t lane) {
  const Vector& block = configOf(w).block;
  const uint32_t thread = w.index * 32 + lane;
  return {thread % block[0], thread / block[0] % block[1], thread / (block[0] * block[1])};
}

// Of three components, `.x` to `.z`; `.w` is 0.
const std::map<std::string, Vector (*)(const Warp&, uint32_t lane)> kVectors = {
    {"%tid", threadIndex},
    {"%ntid", [](const Warp& w, uint32_t) { return configOf(w).block; }},
    {"%ctaid", [](const Warp& w, uint32_t) { return w.cta->id; }},
    {"%nctaid", [](const Warp& w, uint32_t) { return configOf(w).grid; }},
    {"%clusterid", [](const Warp& w, uint32_t) { return inClusters(clusterOf(w).place.first, clusterOf(w).place.extents); }},
    {"%nclusterid", [](const Warp& w, uint32_t) { return inClusters(configOf(w).grid, clusterOf(w).place.extents); }},
    {"%cluster_ctaid", [](const Warp& w, uint32_t) { return w.cta->clusterLocal; }},
    {"%cluster_nctaid", [](const Warp& w, uint32_t) { return clusterOf(w).place.extents; }},
};

uint64_t sharedSize(const Warp& w, uint32_t) { return clusterOf(w).launch.sharedBytes - ptx::kSharedBase; }
uint64_t sharedStart(const Warp&, uint32_t) { return ptx::kSharedBase; }

const std::map<std::string, uint64_t (*)(const Warp&, uint32_t lane)> kScalars = {
    {"%laneid", [](const Warp&, uint32_t lane) -> uint64_t { return lane; }},
    {"%warpid", [](const Warp& w, uint32_t) -> uint64_t { return w.index; }},
    {"%nwarpid", [](const Warp&, uint32_t) -> uint64_t { return 64; }},
    {"%cluster_ctarank", [](const Warp& w, uint32_t) -> uint64_t { return w.cta->rank; }},
    {"%cluster_nctarank", [](const Warp& w, uint32_t) -> uint64_t { return clusterOf(w).place.ctas(); }},
    {"%is_explicit_cluster",
     [](const Warp& w, uint32_t) -> uint64_t {
       return clusterOf(w).place.ctas() > 1 || configOf(w).preferredCluster[0] != 0;
     }},
    {"%smid", [](const Warp& w, uint32_t) -> uint64_t { return w.cta->linear % clusterOf(w).launch.program->device.smCount; }},
    {"%nsmid", [](const Warp& w, uint32_t) -> uint64_t { return clusterOf(w).launch.program->device.smCount; }},
    {"%lanemask_eq", [](const Warp&, uint32_t lane) -> uint64_t { return 1u << lane; }},
    {"%lanemask_lt", [](const Warp&, uint32_t lane) -> uint64_t { return (1u << lane) - 1; }},
    {"%lanemask_le", [](const Warp&, uint32_t lane) -> uint64_t { return (2ull << lane) - 1; }},
    {"%lanemask_gt", [](const Warp&, uint32_t lane) -> uint64_t { return static_cast<uint32_t>(~((2ull << lane) - 1)); }},
    {"%lanemask_ge", [](const Warp&, uint32_t lane) -> uint64_t { return ~((1u << lane) - 1); }},
    {"%dynamic_smem_size", [](const Warp& w, uint32_t) -> uint64_t { return clusterOf(w).launch.dynamicBytes; }},
    {"%total_smem_size", sharedSize},
    {"%aggr_smem_size", sharedSize},
    {"%reserved_smem_offset_end", sharedStart},
    {"%reserved_smem_offset_cap", sharedStart},
    {"WARP_SZ", [](const Warp&, uint32_t) -> uint64_t { return 32; }},
};

}  // namespace

uint64_t specialValue(const Warp& w, const std::string& name, uint32_t lane) {
  if (const auto scalar = kScalars.find(name); scalar != kScalars.end()) return scalar->second(w, lane);
  const size_t dot = name.find('.');
  const auto vector = kVectors.find(name.substr(0, dot));
  if (dot == std::string::npos || vector == kVectors.end())
    return 0;  // %gridid, %envreg0…31, %reserved_smem_offset_begin, …
  const size_t component = std::string_view("xyz").find(name[dot + 1]);
  return component < 3 ? vector->second(w, lane)[component] : 0;
}

namespace {

bool isClock(const std::string& name) {
  return name.rfind("%clock", 0) == 0 || name.rfind("%globaltimer", 0) == 0;
}

// %clock counts the warp's own instructions, so that runs repeat; four cycles each.
template <class T>
Flow readClock(Warp& w, const Op& op, uint32_t mask) {
  const uint64_t cycles = w.ticks * 4;
  const T value = static_cast<T>(op.aux ? cycles >> 32 : cycles);
  forLanes(mask, [&](uint32_t i) { w.at<T>(op.dst)[i] = value; });
  w.setTaint(op.dst, mask, 0);
  return Flow::Next;
}

// list: the parts, least significant first; aux: bytes of a part; imm: bytes of the whole.
Flow pack(Warp& w, const Op& op, uint32_t mask) {
  uint32_t taint = 0;
  for (uint32_t k = 0; k < op.listCount; ++k) {
    const uint32_t slot = w.code->lists[op.list + k];
    const uint32_t stride = std::max(op.aux, 2u);
    forLanes(mask, [&](uint32_t i) {
      std::memcpy(w.at<uint8_t>(op.dst) + i * op.imm + k * op.aux, w.at<uint8_t>(slot) + i * stride, op.aux);
    });
    taint |= w.taint[slot];
  }
  w.setTaint(op.dst, mask, taint);
  return Flow::Next;
}
Flow unpack(Warp& w, const Op& op, uint32_t mask) {
  for (uint32_t k = 0; k < op.listCount; ++k) {
    const uint32_t slot = w.code->lists[op.list + k];
    const uint32_t stride = std::max(op.aux, 2u);
    forLanes(mask, [&](uint32_t i) {
      if (op.aux == 1) w.at<uint8_t>(slot)[i * 2 + 1] = 0;
      std::memcpy(w.at<uint8_t>(slot) + i * stride, w.at<uint8_t>(op.src[0]) + i * op.imm + k * op.aux,
                  op.aux);
    });
    w.setTaint(slot, mask, w.taint[op.src[0]]);
  }
  return Flow::Next;
}

struct B128 {
  uint64_t low, high;
};

void movBuild(Builder& b) {
  const unsigned bytes = typeBytes(b.type());
  const ptx::Operand &d = b.operand(0), &s = b.operand(1);
  using Kind = ptx::Operand::Kind;
  if (d.kind == Kind::Vector || s.kind == Kind::Vector) {
    const ptx::Operand& parts = d.kind == Kind::Vector ? d : s;
    if (parts.elements.empty() || bytes % parts.elements.size() != 0)
      b.refuse("the vector does not fit the type");
    const unsigned part = bytes / static_cast<unsigned>(parts.elements.size());
    // Unpacked parts must not overwrite the source: it is copied when a part is the source itself.
    if (d.kind == Kind::Vector) b.op.src[0] = b.sourceOf(s, bytes);
    std::vector<uint32_t> slots;
    for (const auto& e : parts.elements)
      slots.push_back(d.kind == Kind::Vector ? b.destOf(e, std::max(part, 2u))
                                             : b.sourceOf(e, std::max(part, 2u)));
    b.op.list = b.list(slots);
    b.op.listCount = static_cast<uint32_t>(slots.size());
    b.op.aux = part;
    b.op.imm = bytes;
    if (d.kind == Kind::Vector) {
      b.op.run = &unpack;
    } else {
      b.op.dst = b.destOf(d, bytes);
      b.op.run = &pack;
    }
    return;
  }
  if (s.kind == Kind::Special && isClock(s.name)) {
    if (bytes != 4 && bytes != 8) b.refuse("clocks have 32 or 64 bits");
    b.op.aux = s.name.find("_hi") != std::string::npos;
    b.op.dst = b.dest(0, bytes);
    b.op.run = bytes == 8 ? &readClock<uint64_t> : &readClock<uint32_t>;
    return;
  }
  switch (bytes) {
    case 2: return alu<[](uint16_t a) { return a; }>(b);
    case 4: b.op.flags |= kMove; return alu<[](uint32_t a) { return a; }>(b);
    case 8: return alu<[](uint64_t a) { return a; }>(b);
    case 16: return alu<[](B128 a) { return a; }>(b);
    default: b.refuse("unsupported type");
  }
}

}  // namespace

void addMoveRows(Table& t) {
  t.push_back({"mov", "b16|b32|b64|b128|u16|u32|u64|s16|s32|s64|f16|bf16|f16x2|f32|f64", movBuild});
}

}  // namespace ktl
