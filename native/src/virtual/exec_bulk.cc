// Bulk and tensor copies (TMA) and their groups (PTX ISA 9.7.9.25.4 ff.).
#include "exec_async.h"

namespace ktl {
namespace {

Warp::AsyncGroups& groupsOf(Warp& w, uint32_t lane) {
  if (!w.bulkGroups) w.bulkGroups = std::make_unique<std::array<Warp::AsyncGroups, 32>>();
  return (*w.bulkGroups)[lane];
}

// Op::aux: of loads flags, of stores Reduction + 1 or 0; then the walk, then how many coordinates the list begins with; behind
// them are offsets (16 bits).
enum BulkFlag : uint32_t { kMulticast = 1, kPair = 2, kOperation = 0xff };
constexpr uint32_t kWalk = 8, kCoordinates = 12;
Walk walkOf(const Op& op) { return static_cast<Walk>(op.aux >> kWalk & 0xf); }
uint32_t coordinatesOf(const Op& op) { return op.aux >> kCoordinates; }

// src: destination, -, mbarrier, mask.
Destination destinationOf(Warp& w, const Op& op, uint32_t lane) {
  Destination d;
  const SharedPlace to = sharedPlace(*w.cta->cluster, laneAddress(w, op, 0, lane)),
                    barrier = sharedPlace(*w.cta->cluster, laneAddress(w, op, 2, lane));
  d.offset = to.offset;
  d.barrier = barrier.offset;
  d.pair = op.aux & kPair;
  d.pairBit = barrier.rank & 1;
  d.ranks = 1u << to.rank;
  if (op.aux & kMulticast) d.ranks = w.at<uint16_t>(op.src[3])[lane];
  if (d.ranks == 0 || d.ranks >> w.cta->cluster->ctas.size())
    throw Fault{Code::SharedOutOfBounds, "destination CTA mask " + hex(d.ranks) + " in a cluster of " +
                                             std::to_string(w.cta->cluster->ctas.size())};
  return d;
}

using Coordinates = std::array<int32_t, kMaxTensorRank>;  // by dimension of the map; of tile::gather4 a column and four rows

// src[1]: the map's base; coordinates and offsets in the list.
TensorMap mapOf(Warp& w, const Op& op, uint32_t lane, Coordinates& coordinates) {
  const uint64_t address = laneAddress(w, op, 1, lane);
  if (address % 64)
    throw Fault{Code::Misaligned, "the tensor map at " + hex(address) + " is not 64-byte aligned"};
  TensorMap map = decodeTensorMap(globalAt(w, address, kTensorMapBytes, false));
  map.walk = walkOf(op);
  const uint32_t count = coordinatesOf(op);
  for (uint32_t k = 0; k < op.listCount; ++k) {
    const uint32_t slot = w.code->lists[op.list + k];
    if (k < count) coordinates[k + map.sliced] = w.at<int32_t>(slot)[lane];
    else map.offsets[k - count] = w.at<uint16_t>(slot)[lane];
    if (w.taint[slot] >> lane & 1 && w.cta->cluster->launch.checks)
      w.cta->cluster->warn(w, Code::Uninitialised, static_cast<int>(lane),
                           "a tensor coordinate comes from uninitialised data");
  }
  if (map.walk > Walk::Im2col) map.offsets[1] = static_cast<int16_t>(map.offsets[1]);
  return map;
}

// When a load is done: read once, and taken in by every destination.
uint64_t loadTime(Warp& w, const Destination& d, uint64_t bytes) {
  using namespace timing;
  const Launch& launch = w.cta->cluster->launch;
  const uint64_t fillBytes = kFillBytes[isSm90(launch.program->device) ? 0 : 1];
  uint64_t done = w.cta->reads.reserve(w.now(), cyclesOf(bytes, launch.readBytes));
  forLanes(d.ranks, [&](uint32_t rank) {
    Windows& fills = w.cta->cluster->ctas[rank]->fills;
    done = std::max(done, fills.reserve(w.now(), cyclesOf(bytes, fillBytes)));
  });
  return done + kLoadLatency;
}

// When a store has read its source.
uint64_t storeTime(Warp& w, uint32_t lane, Cta& cta, uint64_t bytes) {
  const uint64_t done = cta.drains.reserve(w.now(), timing::cyclesOf(bytes, timing::kReadBytes));
  Warp::AsyncGroups::Group& group = groupsOf(w, lane).open;
  group.done = std::max(group.done, done);
  group.latency = timing::kStoreLatency;
  return done;
}

std::string place(const TensorMap& map, const Coordinates& coordinates) {
  std::string text = "(";
  for (uint32_t k = 0; k < map.coordinates(); ++k) text += (k ? ", " : "") + std::to_string(coordinates[k + map.sliced]);
  return text + ")";
}

Flow tensorLoad(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  forLanes(mask, [&](uint32_t lane) {
    Coordinates c{};
    const TensorMap map = mapOf(w, op, lane, c);
    const Destination d = destinationOf(w, op, lane);
    uint32_t bytes = 0;
    forLanes(d.ranks, [&](uint32_t rank) {
      bytes = validateTensorLoad(map, coordinatesOf(op), c.data(), d.offset, alive(cluster, rank).shared);
    });
    cluster.loaded += bytes;
    const Sent sent = signals(w, lane, d, "this TMA load");
    if (sent)
      forLanes(d.ranks, [&](uint32_t rank) {
        cluster.ordering->overwrite(w, lane, rank, d.offset, map.pitch() * map.rowCount(), "this TMA load");
      });
    const GlobalView* global = cluster.launch.global;
    issue(w, AsyncKind::Load, 0,
          "TMA load " + place(map, c) + " of " + std::to_string(bytes) + " bytes to " + hex(d.offset),
          loadTime(w, d, bytes), [=, &cluster] {
            forLanes(d.ranks, [&](uint32_t rank) {
              Cta& cta = alive(cluster, rank);
              executeTensorLoad(map, c.data(), d.offset, cta.shared, *global);
              if (sent) cluster.ordering->forget(cta, d.offset, map.pitch() * map.rowCount());
              completeTx(cluster, d.barrierRank(rank), d.barrier, bytes, sent);
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

// What a store reads: shared memory itself, or what it held when cp.async.bulk.wait_group.read released it.
struct StoreSource {
  Cta& cta;
  uint32_t at;  // of the first byte in memory()
  uint32_t bytes;
  std::unique_ptr<SharedMemory> copy{};
  StoreSource(Cta& from, uint32_t offset, uint32_t size) : cta(from), at(offset), bytes(size) {}
  const SharedMemory& memory() const { return copy ? *copy : cta.shared; }
  void take() {
    // Whole KiB, within which swizzles stay, so that addresses keep their lower bits.
    const uint32_t begin = at / 1024 * 1024;
    const uint32_t end = std::min((at + bytes + 1023) / 1024 * 1024, cta.shared.size());
    const auto part = [&](const std::vector<uint8_t>& all) {
      return std::vector<uint8_t>(all.begin() + begin, all.begin() + end);
    };
    copy = std::make_unique<SharedMemory>(SharedMemory{part(cta.shared.bytes), part(cta.shared.valid)});
    at -= begin;
  }
};

// src: shared source, map.
Flow tensorStore(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  forLanes(mask, [&](uint32_t lane) {
    Coordinates c{};
    const TensorMap map = mapOf(w, op, lane, c);
    uint32_t offset;
    Cta& cta = sharedAt(*w.cta, sharedAddress(laneAddress(w, op, 0, lane)), 16, false, offset);
    const uint32_t operation = op.aux & kOperation;
    const bool reduces = operation != 0;
    const auto reduction = static_cast<Reduction>(operation - 1);
    if (reduces)
      validateTensorReduce(map, coordinatesOf(op), c.data(), offset, cta.shared, reduction);
    else
      validateTensorStore(map, coordinatesOf(op), c.data(), offset, cta.shared);
    if (Ordering* order = cluster.ordering.get())
      for (const uint32_t chunk : tensorStoreChunks(map, c.data(), offset)) {
        order->readAsync(w, lane, cta, chunk, 16, "this TMA store");
        order->readByStore(w, lane, cta, chunk, 16);
      }
    const GlobalView* global = cluster.launch.global;
    const Warp* issuer = &w;
    const uint32_t pc = w.pc;
    const auto source = std::make_shared<StoreSource>(cta, offset, map.pitch() * map.rowCount());
    const uint64_t done = storeTime(w, lane, cta, map.rowBytes() * map.rowCount());
    const uint64_t id = issue(
        w, AsyncKind::Store, 0, "TMA store " + place(map, c) + " from " + hex(offset), done,
        [=, &cluster, &cta] {
          const TensorStoreReport report =
              reduces ? executeTensorReduce(map, c.data(), source->at, source->memory(), *global, reduction)
                      : executeTensorStore(map, c.data(), source->at, source->memory(), *global);
          cluster.stored += report.bytesWritten;
          ++cluster.epoch;
          reportInvalid(cluster, issuer, pc, report.invalidBytes,
                        report.firstInvalidAddress + (offset - source->at), "a TMA store");
        },
        [=] { source->take(); });
    join(w, groupsOf(w, lane), id);
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
      if (cluster.ordering) cluster.ordering->readAsync(w, lane, cta, offset, size, "this bulk copy");
    } else {
      from = globalAt(w, source, size, false);
    }
    forLanes(d.ranks, [&](uint32_t rank) {
      requireShared(alive(cluster, rank), d.offset, size, "the destination of a bulk copy");
    });
    cluster.loaded += size;
    const Sent sent = signals(w, lane, d, "this bulk copy");
    if (sent)
      forLanes(d.ranks, [&](uint32_t rank) { cluster.ordering->overwrite(w, lane, rank, d.offset, size, "this bulk copy"); });
    issue(w, AsyncKind::Load, 0, "bulk copy of " + std::to_string(size) + " bytes to " + hex(d.offset),
          loadTime(w, d, size),
          [=, &cluster] {
            forLanes(d.ranks, [&](uint32_t rank) {
              Cta& cta = alive(cluster, rank);
              std::memmove(cta.shared.bytes.data() + d.offset, from, size);  // of the same CTA, they may overlap
              if (valid)
                std::memmove(cta.shared.valid.data() + d.offset, valid, size);
              else
                std::memset(cta.shared.valid.data() + d.offset, 1, size);
              if (sent) cluster.ordering->forget(cta, d.offset, size);
              completeTx(cluster, d.barrierRank(rank), d.barrier, size, sent);
            });
          });
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

// Shared to global. src: global destination, shared source; list: size, byte mask of .cp_mask. aux: 0, or
// 1 + Reduction | element << 8.
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
    if (cluster.ordering) {
      cluster.ordering->readAsync(w, lane, cta, offset, size, "this bulk store");
      cluster.ordering->readByStore(w, lane, cta, offset, size);
    }
    const Warp* issuer = &w;
    const uint32_t pc = w.pc, aux = op.aux;
    const auto held = std::make_shared<StoreSource>(cta, offset, size);
    const bool masked = op.listCount > 1;
    const uint32_t bytes = masked ? w.at<uint16_t>(w.code->lists[op.list + 1])[lane] : 0xffffu;
    const uint64_t done = storeTime(w, lane, cta, size);
    const uint64_t id = issue(
        w, AsyncKind::Store, 0, "bulk store of " + std::to_string(size) + " bytes from " + hex(offset), done,
        [=, &cluster, &cta] {
          const uint8_t* from = held->memory().bytes.data() + held->at;
          uint32_t invalid = 0, first = 0;
          for (uint32_t i = 0; i < size; ++i)
            if (bytes >> i % 16 & 1 && !held->memory().valid[held->at + i] && invalid++ == 0)
              first = offset + i;
          const auto element = static_cast<TensorElement>(aux >> 8);
          if (aux)
            reduceElements(element, static_cast<Reduction>((aux & 0xff) - 1), to, from,
                           size / traitsOf(element).bytes);
          else if (masked)
            for (uint32_t i = 0; i < size; ++i) to[i] = bytes >> i % 16 & 1 ? from[i] : to[i];
          else
            std::memcpy(to, from, size);
          cluster.stored += size;
          ++cluster.epoch;
          reportInvalid(cluster, issuer, pc, invalid, first, "a bulk store");
        },
        [=] { held->take(); });
    join(w, groupsOf(w, lane), id);
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

Flow commit(Warp& w, const Op&, uint32_t mask) {
  forLanes(mask, [&](uint32_t i) { commitGroup(w, groupsOf(w, i)); });
  if (Ordering* order = w.cta->cluster->ordering.get()) order->commitStores(w, mask);
  return Flow::Next;
}
Flow wait(Warp& w, const Op& op, uint32_t mask) {  // aux: only the reads
  forLanes(mask, [&](uint32_t i) {
    const auto pending = static_cast<uint64_t>(op.imm);
    op.aux ? readGroups(w, groupsOf(w, i), pending) : waitGroups(w, groupsOf(w, i), pending);
  });
  if (Ordering* order = w.cta->cluster->ordering.get()) order->waitStores(w, mask, static_cast<uint64_t>(op.imm));
  return Flow::Next;
}

// --- decoding
// ------------------------------------------------------------------------------------------------

// Operand `index` is the map with its coordinates. Offsets, where the form has them: one after, or after the barrier.
// Returns how many operands they are.
size_t tensorOperand(Builder& b, size_t index, size_t offsetsAt) {
  const ptx::Operand& tensor = b.operand(index);
  if (tensor.kind != ptx::Operand::Kind::Tensor) b.refuse("expected [map, {coordinates}]");
  b.addressOf(tensor.elements.at(0), 1);
  std::vector<uint32_t> slots;
  for (size_t k = 1; k < tensor.elements.size(); ++k) slots.push_back(b.sourceOf(tensor.elements[k], 4));
  const bool sm90 = b.target().rfind("sm_90", 0) == 0;
  const bool fourRows = b.has("tile::gather4") || b.has("tile::scatter4");
  const bool along = b.has("im2col::w"), along128 = b.has("im2col::w::128"), im2col = b.has("im2col");
  const Walk walk = fourRows                             ? Walk::FourRows
                    : along                              ? Walk::Im2colW
                    : along128                           ? Walk::Im2colW128
                    : im2col || b.has("im2col_no_offs") ? Walk::Im2col
                                                         : Walk::Tile;
  const size_t rank = b.has("1d") ? 1 : b.has("2d") ? 2 : b.has("3d") ? 3 : b.has("4d") ? 4 : 5;
  if (fourRows && (rank != 2 || sm90)) b.refuse("gather4 and scatter4 are of two dimensions, and of sm_100a");
  if ((along || along128) && sm90) b.refuse("im2col::w is of sm_100a");
  if (walk >= Walk::Im2col && rank < 3) b.refuse("im2col is of three to five dimensions");
  if (slots.size() != (fourRows ? 5 : rank)) b.refuse("the number of coordinates differs from the dimension");
  b.op.aux |= static_cast<uint32_t>(walk) << kWalk | static_cast<uint32_t>(slots.size()) << kCoordinates;
  const size_t offsets = along || along128 ? 2 : im2col ? rank - 2 : 0;
  if (offsets > 0) {
    const ptx::Operand& list = b.operand(offsetsAt);
    if (list.kind != ptx::Operand::Kind::Vector || list.elements.size() != offsets)
      b.refuse("expected {offsets}, " + std::to_string(offsets) + " of them");
    for (const ptx::Operand& offset : list.elements) slots.push_back(b.sourceOf(offset, 2));
  }
  b.op.list = b.list(slots);
  b.op.listCount = static_cast<uint32_t>(slots.size());
  return offsets > 0 ? 1 : 0;
}
void maskOperand(Builder& b, size_t index) {
  if (b.has("multicast::cluster")) {
    b.op.src[3] = b.source(index, 2);
    b.op.aux |= kMulticast;
  }
  if (b.has("cta_group::2")) b.op.aux |= kPair;
}
void sizeOperand(Builder& b, size_t index) {
  b.bound(index, kBulkRange);
  b.op.list = b.list({b.source(index, 4)});
  b.op.listCount = 1;
}

}  // namespace

// No figure of the ISA's is exact about where a halo lies, and no SM100 has confirmed it.
constexpr const char* kHalo = "the halo is the pixels behind the last one, or behind every 32nd";

void addBulkRows(Table& t) {
  const std::string rank = "1d|2d|3d|4d|5d ", mbar = "mbarrier::complete_tx::bytes ",
                    hint = "L2::cache_hint? ";
  const std::string ops = "add|min|max|inc|dec|and|or|xor ", boxes = "tile|tile::gather4|im2col? ", along = "im2col::w|im2col::w::128 ";
  for (const auto& [from, approximate] : {std::pair{boxes, static_cast<const char*>(nullptr)}, {along, kHalo}})
    t.push_back({"cp",
                 "async bulk tensor " + rank + "shared::cluster|shared::cta global " + from + mbar +
                     "multicast::cluster? cta_group::1|cta_group::2? " + hint,
                 [](Builder& b) {
                   b.address(0, 0);
                   const size_t offsets = tensorOperand(b, 1, 3);
                   b.address(2, 2);
                   maskOperand(b, 3 + offsets);
                   b.op.run = &tensorLoad;
                 },
                 approximate});
  const auto store = [](Builder& b, uint32_t reduction) {
    tensorOperand(b, 0, 0);
    b.address(1, 0);
    b.op.aux |= reduction;
    b.op.run = &tensorStore;
  };
  t.push_back({"cp", "async bulk tensor " + rank + "global shared::cta tile|tile::scatter4|im2col_no_offs? bulk_group " + hint,
               [=](Builder& b) { store(b, 0); }});
  t.push_back({"cp", "reduce async bulk tensor " + rank + "global shared::cta tile|im2col_no_offs? bulk_group " + ops + hint,
               [=](Builder& b) {
                 store(b, 1 + static_cast<uint32_t>(reductionOf(b)));
                 b.couple();
               }});
  const auto ignore = [](Builder& b) { b.op.run = [](Warp&, const Op&, uint32_t) { return Flow::Next; }; };
  for (const auto& from : {boxes, along})
    t.push_back({"cp", "async bulk prefetch tensor " + rank + "L2 global " + from + hint, [ignore](Builder& b) {
                   tensorOperand(b, 0, 1);
                   ignore(b);
                 }});
  t.push_back({"cp", "async bulk prefetch L2 global " + hint, [ignore](Builder& b) {
                 b.bound(1, kBulkRange);
                 ignore(b);
               }});
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
  t.push_back({"cp", "async bulk global shared::cta bulk_group cp_mask " + hint, [=](Builder& b) {
                 bulk(b, 0);
                 const uint32_t size = b.source(2, 4);
                 b.op.list = b.list({size, b.source(b.operands() - 1, 2)});
                 b.op.listCount = 2;
               }});
  t.push_back({"cp",
               "reduce async bulk global shared::cta bulk_group noftz? " + ops +
                   "f16|bf16|f32|f64|u32|s32|u64|s64|b32|b64 " + hint,
               [=](Builder& b) {
                 const auto reduction = static_cast<uint32_t>(reductionOf(b));
                 bulk(b, (1 + reduction) | static_cast<uint32_t>(elementOf(b)) << 8);
                 b.couple();
               }});
  t.push_back({"cp", "async bulk commit_group", [](Builder& b) { b.op.run = &commit; }});
  t.push_back({"cp", "async bulk wait_group read?", [](Builder& b) {
                 b.op.imm = b.immediate(0, kGroupRange);
                 b.op.aux = b.has("read");
                 b.op.run = &wait;
               }});
}

}  // namespace ktl
