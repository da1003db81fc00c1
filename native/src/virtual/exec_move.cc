// mov in all its forms and special registers (PTX ISA 9.7.9.6, 10).
#include <chrono>
#include "cta.h"
#include "exec_lanes.h"

namespace ktl {

uint64_t specialValue(const Warp& w, const std::string& name, uint32_t lane) {
  const Cta& cta = *w.cta;
  const Launch& launch = cta.cluster->launch;
  const ClusterPlace& cluster = cta.cluster->place;
  const LaunchConfig& config = *launch.config;
  const uint32_t thread = w.index * 32 + lane;
  const auto dimension = [&](const char* prefix) -> int {  // index of the component, -1: another register
    const size_t n = std::strlen(prefix);
    if (name.compare(0, n, prefix) != 0 || name.size() != n + 2 || name[n] != '.') return -1;
    const char c = name[n + 1];
    return c >= 'x' && c <= 'z' ? c - 'x' : c == 'w' ? 3 : -1;
  };
  const auto component = [](const std::array<uint32_t, 3>& v, int d, uint32_t rest) {
    return d < 3 ? v[d] : rest;
  };
  int d;
  if ((d = dimension("%tid")) >= 0) {
    const std::array<uint32_t, 3> tid{thread % config.block[0], thread / config.block[0] % config.block[1],
                                      thread / (config.block[0] * config.block[1])};
    return component(tid, d, 0);
  }
  if ((d = dimension("%ntid")) >= 0) return component(config.block, d, 0);
  if ((d = dimension("%ctaid")) >= 0) return component(cta.id, d, 0);
  if ((d = dimension("%nctaid")) >= 0) return component(config.grid, d, 0);
  // Of a grid of mixed sizes: as if all clusters were like this one.
  if ((d = dimension("%clusterid")) >= 0) return d < 3 ? cluster.first[d] / cluster.extents[d] : 0;
  if ((d = dimension("%nclusterid")) >= 0) return d < 3 ? config.grid[d] / cluster.extents[d] : 0;
  if ((d = dimension("%cluster_ctaid")) >= 0) return component(cta.clusterLocal, d, 0);
  if ((d = dimension("%cluster_nctaid")) >= 0) return component(cluster.extents, d, 0);
  if (name == "%laneid") return lane;
  if (name == "%warpid") return w.index;
  if (name == "%nwarpid") return 64;
  if (name == "%cluster_ctarank") return cta.rank;
  if (name == "%cluster_nctarank") return cluster.ctas();
  if (name == "%is_explicit_cluster") return cluster.ctas() > 1 || config.preferredCluster[0] != 0;
  if (name == "%smid") return cta.linear % launch.program->device.smCount;
  if (name == "%nsmid") return launch.program->device.smCount;
  if (name == "%lanemask_eq") return 1u << lane;
  if (name == "%lanemask_lt") return (1u << lane) - 1;
  if (name == "%lanemask_le") return (2ull << lane) - 1;
  if (name == "%lanemask_gt") return static_cast<uint32_t>(~((2ull << lane) - 1));
  if (name == "%lanemask_ge") return ~((1u << lane) - 1);
  if (name == "%dynamic_smem_size") return launch.dynamicBytes;
  if (name == "%total_smem_size" || name == "%aggr_smem_size") return launch.sharedBytes - ptx::kSharedBase;
  if (name == "%reserved_smem_offset_end" || name == "%reserved_smem_offset_cap") return ptx::kSharedBase;
  if (name == "WARP_SZ") return 32;
  return 0;  // %gridid, %envreg0…31, %reserved_smem_offset_begin, …
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
