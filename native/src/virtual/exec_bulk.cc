// Bulk and tensor copies (TMA), their groups, st.async, cluster launch control (PTX ISA 9.7.9.25.4
// ff., 9.7.14).
#include "exec_async.h"
#include "tma.h"

namespace ktl {
namespace {

Warp::AsyncGroups& groupsOf(Warp& w, uint32_t lane) {
  if (!w.bulkGroups) w.bulkGroups = std::make_unique<std::array<Warp::AsyncGroups, 32>>();
  return (*w.bulkGroups)[lane];
}

Cta& alive(Cluster& cluster, uint32_t rank) {
  if (rank >= cluster.ctas.size())
    throw Fault{Code::SharedOutOfBounds, "CTA rank " + std::to_string(rank) + " in a cluster of " +
                                             std::to_string(cluster.ctas.size())};
  Cta& cta = *cluster.ctas[rank];
  if (cta.liveWarps == 0)
    throw Fault{Code::AsyncInFlight, "the destination CTA of rank " + std::to_string(rank) + " has exited"};
  return cta;
}

void completeTx(Cluster& cluster, uint32_t rank, uint32_t offset, uint32_t bytes) {
  alive(cluster, rank).mbarrier(offset, "complete_tx").complete(bytes);
  ++cluster.epoch;
}

// Destination CTAs of a copy into shared memory, and where it signals.
struct Destination {
  uint32_t offset = 0, barrier = 0, ranks = 0;
  uint32_t pairBit = 0;
  bool pair = false;  // .cta_group::2: the barrier may be the pair peer's
  uint32_t barrierRank(uint32_t rank) const { return pair ? (rank & ~1u) | pairBit : rank; }
};

enum BulkFlag : uint32_t { kMulticast = 1, kPair = 2 };

// src: destination, -, mbarrier, mask.
Destination destinationOf(Warp& w, const Op& op, uint32_t lane) {
  Destination d;
  const uint32_t to = sharedAddress(laneAddress(w, op, 0, lane)),
                 barrier = sharedAddress(laneAddress(w, op, 2, lane));
  d.offset = to & 0xffffff;
  d.barrier = barrier & 0xffffff;
  d.pair = op.aux & kPair;
  d.pairBit = barrier >> 24 & 1;
  d.ranks = 1u << (to >> 24 & 31);
  if (op.aux & kMulticast) d.ranks = w.at<uint16_t>(op.src[3])[lane];
  if (d.ranks == 0 || d.ranks >> w.cta->cluster->ctas.size())
    throw Fault{Code::SharedOutOfBounds, "destination CTA mask " + hex(d.ranks) + " in a cluster of " +
                                             std::to_string(w.cta->cluster->ctas.size())};
  return d;
}

// list: map base is src[1]; coordinates in the list.
TensorMap mapOf(Warp& w, const Op& op, uint32_t lane, std::array<int32_t, 5>& coordinates) {
  const uint64_t address = laneAddress(w, op, 1, lane);
  if (address % 64)
    throw Fault{Code::Misaligned, "the tensor map at " + hex(address) + " is not 64-byte aligned"};
  const TensorMap map = decodeTensorMap(globalAt(w, address, kTensorMapBytes, false));
  for (uint32_t k = 0; k < op.listCount; ++k) {
    const uint32_t slot = w.code->lists[op.list + k];
    coordinates[k] = w.at<int32_t>(slot)[lane];
    if (w.taint[slot] >> lane & 1 && w.cta->cluster->launch.checks)
      w.cta->cluster->warn(w, Code::Uninitialised, static_cast<int>(lane),
                           "a tensor coordinate comes from uninitialised data");
  }
  return map;
}

std::string place(const Op& op, const std::array<int32_t, 5>& coordinates) {
  std::string text = "(";
  for (uint32_t k = 0; k < op.listCount; ++k) text += (k ? ", " : "") + std::to_string(coordinates[k]);
  return text + ")";
}

Flow tensorLoad(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  forLanes(mask, [&](uint32_t lane) {
    std::array<int32_t, 5> c{};
    const TensorMap map = mapOf(w, op, lane, c);
    const Destination d = destinationOf(w, op, lane);
    uint32_t bytes = 0;
    forLanes(d.ranks, [&](uint32_t rank) {
      bytes = validateTensorLoad(map, op.listCount, c.data(), d.offset, alive(cluster, rank).shared);
    });
    cluster.loaded += bytes;
    const GlobalView* global = cluster.launch.global;
    issue(w, AsyncKind::Load, 0,
          "TMA load " + place(op, c) + " of " + std::to_string(bytes) + " bytes to " + hex(d.offset),
          [=, &cluster] {
            forLanes(d.ranks, [&](uint32_t rank) {
              Cta& cta = alive(cluster, rank);
              executeTensorLoad(map, c.data(), d.offset, cta.shared, *global);
              cta.tmaBytes += bytes;
              completeTx(cluster, d.barrierRank(rank), d.barrier, bytes);
            });
          });
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

void reportInvalid(Cluster& cluster, const Warp* issuer, uint32_t pc, uint32_t count, uint32_t address,
                   const char* what) {
  if (count == 0 || !cluster.launch.checks) return;
  Finding finding = cluster.describe(
      issuer, pc, Code::Uninitialised,
      std::string(what) + " writes " + std::to_string(count) +
          " bytes of shared memory to global memory that nobody wrote, the first at " + hex(address));
  finding.fatal = false;
  cluster.add(std::move(finding));
}

// src: shared source, map. imm2 of reductions: aux = Reduction + 1, 0: a plain store.
Flow tensorStore(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  forLanes(mask, [&](uint32_t lane) {
    std::array<int32_t, 5> c{};
    const TensorMap map = mapOf(w, op, lane, c);
    uint32_t offset;
    Cta& cta = sharedAt(*w.cta, sharedAddress(laneAddress(w, op, 0, lane)), 1, false, offset);
    const bool reduces = op.aux != 0;
    const auto reduction = static_cast<Reduction>(op.aux - 1);
    if (reduces)
      validateTensorReduce(map, op.listCount, c.data(), offset, cta.shared, reduction);
    else
      validateTensorStore(map, op.listCount, c.data(), offset, cta.shared);
    const GlobalView* global = cluster.launch.global;
    const Warp* issuer = &w;
    const uint32_t pc = w.pc;
    const uint64_t id = issue(
        w, AsyncKind::Store, 0, "TMA store " + place(op, c) + " from " + hex(offset), [=, &cluster, &cta] {
          const TensorStoreReport report =
              reduces ? executeTensorReduce(map, c.data(), offset, cta.shared, *global, reduction)
                      : executeTensorStore(map, c.data(), offset, cta.shared, *global);
          cluster.stored += report.bytesWritten;
          cta.tmaBytes += report.bytesWritten;
          ++cluster.epoch;
          reportInvalid(cluster, issuer, pc, report.invalidBytes, report.firstInvalidAddress, "a TMA store");
        });
    groupsOf(w, lane).open.push_back(id);
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

void requireBulk(uint64_t a, uint64_t b, uint32_t size) {
  if ((a | b) % 16)
    throw Fault{Code::Misaligned,
                "bulk copy between " + hex(a) + " and " + hex(b) + ": both must be multiples of 16"};
  if (size % 16)
    throw Fault{Code::Misaligned,
                "bulk copy of " + std::to_string(size) + " bytes, which is not a multiple of 16"};
}

// Global or own shared memory to shared memory. src: destination, source, mbarrier, mask; list[0]: size.
template <bool FromShared>
Flow bulkLoad(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t size = w.at<uint32_t>(w.code->lists[op.list])[lane];
    const Destination d = destinationOf(w, op, lane);
    const uint64_t source = laneAddress(w, op, 1, lane);
    requireBulk(d.offset, source, size);
    if (size == 0) return;
    const uint8_t *from, *valid = nullptr;
    if (FromShared) {
      uint32_t offset;
      Cta& cta = sharedAt(*w.cta, sharedAddress(source), size, false, offset);
      from = cta.shared.bytes.data() + offset;
      valid = cta.shared.valid.data() + offset;
    } else {
      from = globalAt(w, source, size, false);
    }
    forLanes(d.ranks, [&](uint32_t rank) {
      if (d.offset + size > alive(cluster, rank).shared.size())
        throw Fault{Code::SharedOutOfBounds, "bulk copy of " + std::to_string(size) + " bytes to " +
                                                 hex(d.offset) + " ends behind the CTA's window"};
    });
    cluster.loaded += size;
    issue(w, AsyncKind::Load, 0, "bulk copy of " + std::to_string(size) + " bytes to " + hex(d.offset),
          [=, &cluster] {
            forLanes(d.ranks, [&](uint32_t rank) {
              Cta& cta = alive(cluster, rank);
              std::memcpy(cta.shared.bytes.data() + d.offset, from, size);
              if (valid)
                std::memcpy(cta.shared.valid.data() + d.offset, valid, size);
              else
                std::memset(cta.shared.valid.data() + d.offset, 1, size);
              cta.tmaBytes += size;
              completeTx(cluster, d.barrierRank(rank), d.barrier, size);
            });
          });
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

// Shared to global. src: global destination, shared source; list: size. aux: 0, or 1 + Reduction | element
// << 8.
Flow bulkStore(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t size = w.at<uint32_t>(w.code->lists[op.list])[lane];
    const uint64_t target = laneAddress(w, op, 0, lane), source = laneAddress(w, op, 1, lane);
    requireBulk(target, source, size);
    if (size == 0) return;
    uint8_t* to = globalAt(w, target, size, true);
    uint32_t offset;
    Cta& cta = sharedAt(*w.cta, sharedAddress(source), size, false, offset);
    const Warp* issuer = &w;
    const uint32_t pc = w.pc, aux = op.aux;
    const uint64_t id =
        issue(w, AsyncKind::Store, 0, "bulk store of " + std::to_string(size) + " bytes from " + hex(offset),
              [=, &cluster, &cta] {
                const uint8_t* from = cta.shared.bytes.data() + offset;
                uint32_t invalid = 0, first = 0;
                for (uint32_t i = 0; i < size; ++i)
                  if (!cta.shared.valid[offset + i] && invalid++ == 0) first = offset + i;
                const auto element = static_cast<TensorElement>(aux >> 8);
                if (aux)
                  reduceElements(element, static_cast<Reduction>((aux & 0xff) - 1), to, from,
                                 size / traitsOf(element).bytes);
                else
                  std::memcpy(to, from, size);
                cluster.stored += size;
                cta.tmaBytes += size;
                ++cluster.epoch;
                reportInvalid(cluster, issuer, pc, invalid, first, "a bulk store");
              });
    groupsOf(w, lane).open.push_back(id);
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

Flow commit(Warp& w, const Op&, uint32_t mask) {
  forLanes(mask, [&](uint32_t i) { commitGroup(groupsOf(w, i)); });
  return Flow::Next;
}
Flow wait(Warp& w, const Op& op, uint32_t mask) {
  forLanes(mask, [&](uint32_t i) { waitGroups(w, groupsOf(w, i), op.imm); });
  return Flow::Next;
}

// st.async: src: destination, -, mbarrier; list: values of aux bytes.
Flow storeAsync(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  forLanes(mask, [&](uint32_t lane) {
    std::vector<uint8_t> data(op.listCount * op.aux);
    for (uint32_t k = 0; k < op.listCount; ++k)
      std::memcpy(data.data() + k * op.aux, w.at<uint8_t>(w.code->lists[op.list + k]) + lane * op.aux,
                  op.aux);
    const uint32_t to = sharedAddress(laneAddress(w, op, 0, lane)),
                   barrier = sharedAddress(laneAddress(w, op, 2, lane)) & 0xffffff;
    uint32_t offset;
    Cta& cta = sharedAt(*w.cta, to, static_cast<uint32_t>(data.size()), true, offset);
    if (offset % data.size()) throw Fault{Code::Misaligned, "st.async to " + hex(to)};
    issue(w, AsyncKind::Load, 0, "st.async of " + std::to_string(data.size()) + " bytes to " + hex(to),
          [=, &cta, &cluster] {
            std::memcpy(cta.shared.bytes.data() + offset, data.data(), data.size());
            std::memset(cta.shared.valid.data() + offset, 1, data.size());
            completeTx(cluster, cta.rank, barrier, static_cast<uint32_t>(data.size()));
          });
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

// clusterlaunchcontrol.try_cancel: src: response, -, mbarrier. The response: {1 or 0, x, y, z} as 32-bit
// words.
Flow tryCancel(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t response = sharedAddress(laneAddress(w, op, 0, lane)) & 0xffffff,
                   barrier = sharedAddress(laneAddress(w, op, 2, lane)) & 0xffffff;
    if (response % 16)
      throw Fault{Code::Misaligned,
                  "cluster launch control response at " + hex(response) + " is not 16-byte aligned"};
    const uint32_t ranks = op.aux & kMulticast ? (1u << cluster.ctas.size()) - 1 : 1u << w.cta->rank;
    issue(w, AsyncKind::Load, 0, "clusterlaunchcontrol.try_cancel", [=, &cluster] {
      Launch& launch = cluster.launch;
      uint32_t words[4] = {};
      uint64_t next = launch.nextCluster.fetch_add(1);
      if (next < launch.clusterCount) {
        words[0] = 1;
        for (int d = 0; d < 3; ++d) {
          words[d + 1] = static_cast<uint32_t>(next % launch.clusters[d]) * launch.config->cluster[d];
          next /= launch.clusters[d];
        }
        launch.ctasDone += cluster.ctas.size();
      } else {
        launch.nextCluster = launch.clusterCount;
      }
      forLanes(ranks, [&](uint32_t rank) {
        Cta& cta = alive(cluster, rank);
        if (response + 16 > cta.shared.size())
          throw Fault{Code::SharedOutOfBounds, "cluster launch control response at " + hex(response)};
        std::memcpy(cta.shared.bytes.data() + response, words, 16);
        std::memset(cta.shared.valid.data() + response, 1, 16);
        completeTx(cluster, rank, barrier, 16);
      });
    });
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

struct Response {
  uint32_t cancelled, ctaid[3];
};
Flow isCancelled(Warp& w, const Op& op, uint32_t mask) {
  uint32_t hit = 0;
  forLanes(mask, [&](uint32_t i) { hit |= (w.at<Response>(op.src[0])[i].cancelled & 1) << i; });
  w.pred(op.dst) = (w.pred(op.dst) & ~mask) | hit;
  w.setTaint(op.dst, mask, w.taint[op.src[0]]);
  return Flow::Next;
}
Flow firstCtaid(Warp& w, const Op& op, uint32_t mask) {  // list: destinations; aux: first component
  for (uint32_t k = 0; k < op.listCount; ++k) {
    const uint32_t slot = w.code->lists[op.list + k];
    forLanes(mask, [&](uint32_t i) {
      w.at<uint32_t>(slot)[i] = op.aux + k < 3 ? w.at<Response>(op.src[0])[i].ctaid[op.aux + k] : 0;
    });
    w.setTaint(slot, mask, w.taint[op.src[0]]);
  }
  return Flow::Next;
}

// --- decoding
// ------------------------------------------------------------------------------------------------

void tensorOperand(Builder& b, size_t index) {
  const ptx::Operand& tensor = b.operand(index);
  if (tensor.kind != ptx::Operand::Kind::Tensor) b.refuse("expected [map, {coordinates}]");
  b.addressOf(tensor.elements.at(0), 1);
  std::vector<uint32_t> slots;
  for (size_t k = 1; k < tensor.elements.size(); ++k) slots.push_back(b.sourceOf(tensor.elements[k], 4));
  const int rank = b.has("1d") ? 1 : b.has("2d") ? 2 : b.has("3d") ? 3 : b.has("4d") ? 4 : 5;
  if (static_cast<int>(slots.size()) != rank)
    b.refuse("the number of coordinates differs from the dimension");
  b.op.list = b.list(slots);
  b.op.listCount = static_cast<uint32_t>(slots.size());
}
void maskOperand(Builder& b, size_t index) {
  if (b.has("multicast::cluster")) {
    b.op.src[3] = b.source(index, 2);
    b.op.aux |= kMulticast;
  }
  if (b.has("cta_group::2")) b.op.aux |= kPair;
}
uint32_t reductionOf(Builder& b) {
  static const char* const names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
  for (uint32_t i = 0; i < 8; ++i)
    if (b.has(names[i])) return i + 1;
  b.refuse("unknown reduction");
}
uint32_t elementOf(Builder& b) {
  static const std::pair<const char*, TensorElement> names[] = {
      {"f16", TensorElement::F16}, {"bf16", TensorElement::BF16}, {"f32", TensorElement::F32},
      {"f64", TensorElement::F64}, {"u32", TensorElement::U32},   {"b32", TensorElement::U32},
      {"s32", TensorElement::S32}, {"u64", TensorElement::U64},   {"b64", TensorElement::U64},
      {"s64", TensorElement::S64}};
  for (const auto& [name, element] : names)
    if (b.has(name)) return static_cast<uint32_t>(element);
  b.refuse("unknown element type");
}
void sizeOperand(Builder& b, size_t index) {
  b.op.list = b.list({b.source(index, 4)});
  b.op.listCount = 1;
}

}  // namespace

void addBulkRows(Table& t) {
  const std::string rank = "1d|2d|3d|4d|5d ", mbar = "mbarrier::complete_tx::bytes ",
                    hint = "L2::cache_hint? ";
  const std::string ops = "add|min|max|inc|dec|and|or|xor ";
  t.push_back({"cp",
               "async bulk tensor " + rank + "shared::cluster|shared::cta global tile? " + mbar +
                   "multicast::cluster? cta_group::1|cta_group::2? " + hint,
               [](Builder& b) {
                 b.address(0, 0);
                 tensorOperand(b, 1);
                 b.address(2, 2);
                 maskOperand(b, 3);
                 b.op.run = &tensorLoad;
               }});
  const auto store = [](Builder& b, uint32_t reduction) {
    tensorOperand(b, 0);
    b.address(1, 0);
    b.op.aux = reduction;
    b.op.run = &tensorStore;
  };
  t.push_back({"cp", "async bulk tensor " + rank + "global shared::cta tile? bulk_group " + hint,
               [=](Builder& b) { store(b, 0); }});
  t.push_back({"cp", "reduce async bulk tensor " + rank + "global shared::cta tile? bulk_group " + ops + hint,
               [=](Builder& b) {
                 store(b, reductionOf(b));
                 b.couple();
               }});
  const auto ignore = [](Builder& b) { b.op.run = [](Warp&, const Op&, uint32_t) { return Flow::Next; }; };
  t.push_back({"cp", "async bulk prefetch tensor " + rank + "L2 global tile? " + hint, ignore});
  t.push_back({"cp", "async bulk prefetch L2 global " + hint, ignore});
  const auto load = [](Builder& b) {
    b.address(0, 0);
    b.address(1, 1);
    sizeOperand(b, 2);
    b.address(3, 2);
    maskOperand(b, 4);
  };
  t.push_back({"cp", "async bulk shared::cluster|shared::cta global " + mbar + "multicast::cluster? " + hint,
               [=](Builder& b) {
                 load(b);
                 b.op.run = &bulkLoad<false>;
               }});
  t.push_back({"cp", "async bulk shared::cluster shared::cta " + mbar, [=](Builder& b) {
                 load(b);
                 b.op.run = &bulkLoad<true>;
               }});
  const auto bulk = [](Builder& b, uint32_t aux) {
    b.address(0, 0);
    b.address(1, 1);
    sizeOperand(b, 2);
    b.op.aux = aux;
    b.op.run = &bulkStore;
  };
  t.push_back({"cp", "async bulk global shared::cta bulk_group " + hint, [=](Builder& b) { bulk(b, 0); }});
  t.push_back({"cp",
               "reduce async bulk global shared::cta bulk_group noftz? " + ops +
                   "f16|bf16|f32|f64|u32|s32|u64|s64|b32|b64 " + hint,
               [=](Builder& b) {
                 bulk(b, reductionOf(b) | elementOf(b) << 8);
                 b.couple();
               }});
  t.push_back({"cp", "async bulk commit_group", [](Builder& b) { b.op.run = &commit; }});
  t.push_back({"cp", "async bulk wait_group read?", [](Builder& b) {
                 b.op.imm = static_cast<int64_t>(b.operand(0).bits);
                 b.op.run = &wait;
               }});
  t.push_back({"st", "async weak? shared::cluster " + mbar + "v2|v4? b32|b64|u32|u64|s32|s64|f32|f64",
               [](Builder& b) {
                 b.address(0, 0);
                 const ptx::Operand& value = b.operand(1);
                 std::vector<uint32_t> slots;
                 b.op.aux = typeBytes(b.ins.modifiers.back());
                 if (value.kind == ptx::Operand::Kind::Vector)
                   for (const auto& e : value.elements) slots.push_back(b.sourceOf(e, b.op.aux));
                 else
                   slots.push_back(b.sourceOf(value, b.op.aux));
                 b.op.list = b.list(slots);
                 b.op.listCount = static_cast<uint32_t>(slots.size());
                 b.address(2, 2);
                 b.op.run = &storeAsync;
               }});
  t.push_back({"clusterlaunchcontrol",
               "try_cancel async shared::cta? " + mbar + "multicast::cluster::all? b128", [](Builder& b) {
                 b.address(0, 0);
                 b.address(1, 2);
                 b.op.aux = b.has("multicast::cluster::all") ? uint32_t{kMulticast} : 0u;
                 b.op.run = &tryCancel;
                 b.couple();
               }});
  t.push_back({"clusterlaunchcontrol", "query_cancel is_canceled pred b128", [](Builder& b) {
                 b.op.src[0] = b.source(1, 16);
                 b.op.dst = b.dest(0, 1);
                 b.op.run = &isCancelled;
               }});
  t.push_back(
      {"clusterlaunchcontrol",
       "query_cancel get_first_ctaid|get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z v4? b32 b128",
       [](Builder& b) {
         b.op.src[0] = b.source(1, 16);
         std::vector<uint32_t> slots;
         if (b.operand(0).kind == ptx::Operand::Kind::Vector)
           for (const auto& e : b.operand(0).elements) slots.push_back(b.destOf(e, 4));
         else
           slots.push_back(b.dest(0, 4));
         b.op.list = b.list(slots);
         b.op.listCount = static_cast<uint32_t>(slots.size());
         b.op.aux = b.has("get_first_ctaid::y") ? 1 : b.has("get_first_ctaid::z") ? 2 : 0;
         b.op.run = &firstCtaid;
       }});
}

}  // namespace ktl
