// Tensor Memory instructions: alloc, dealloc, ld, st, cp, shift and their waits (PTX ISA 9.7.16.7, 9.7.16.8).
#include "exec_tmem.h"
#include "exec_tensor.h"
#include "ordering.h"
#include "smem_descriptor.h"

namespace ktl {

uint32_t tmemAddress(Warp& w, const Op& op, unsigned k, uint32_t mask, bool uniform) {
  const uint32_t lane = static_cast<uint32_t>(std::countr_zero(mask));
  const auto address = static_cast<uint32_t>(laneAddress(w, op, k, lane));
  w.faultLane = ~0u;
  if (uniform)
    forLanes(mask, [&](uint32_t i) {
      if (w.at<uint32_t>(op.src[k])[i] + (k == 0 ? static_cast<uint32_t>(op.imm) : 0) != address)
        throw Fault{Code::TmemAccess, "the lanes of a warp pass different Tensor Memory addresses"};
    });
  return address;
}

namespace {

Cta* peerOf(const Cta& cta) {
  const uint32_t rank = cta.rank ^ 1;
  return rank < cta.cluster->ctas.size() ? cta.cluster->ctas[rank].get() : nullptr;
}

// With .cta_group::2 both CTAs of a pair deallocate together: neither may while the other still uses what they
// allocated together, or has not allocated it yet. What this CTA uses is its own until its own dealloc, unless a pair that
// comes next gets the columns: CUTLASS's tutorial 05_mma_tma_epi_sm100 lives with that, so that it is a warning.
void checkPair(Warp& w, const char* operation) {
  const Cta& cta = *w.cta;
  const Cta* peer = peerOf(cta);
  if (cta.pairAllocated == 0 || !peer || peer->pairReleased < peer->pairAllocated ||
      peer->pairReleased <= cta.pairReleased || !cta.cluster->launch.checks)
    return;
  w.cta->cluster->warn(w, Code::TmemAccess, -1,
                       std::string(operation) + " after the CTA of rank " + std::to_string(peer->rank) +
                           " deallocated the Tensor Memory of the pair: put a barrier of the two before that");
}

// With .cta_group::2 both CTAs of a pair allocate together (PTX ISA 9.7.16.5): the columns exist in both before either
// goes on. The first to come goes on first; then it may even run to its end before the other's alloc has finished, which
// has to be waited for before a dealloc (NVIDIA/cutlass issue 3435).
bool metPeer(Warp& w) {
  const Cta* peer = peerOf(*w.cta);
  if (!peer || peer->liveWarps == 0) return true;
  return w.pairAlloc.second ? peer->pairAllocated >= w.pairAlloc.number : peer->pairOffered >= w.pairAlloc.number;
}

std::string by(const Warp& warp, uint32_t pc) {
  return "warp " + std::to_string(warp.index) + " (ptx line " + std::to_string(warp.code->source[pc]->line) + ")";
}

// Stores into columns that are about to be freed take effect now, with a warning: whoever allocates them next may find them there.
void landStores(Warp& w, Warp& storing, uint32_t column, uint32_t columns) {
  Cluster& cluster = *w.cta->cluster;
  std::erase_if(storing.tmemStores, [&](const Warp::TmemStore& store) {
    const auto first = store.cells.first(column, columns, 3);
    if (!first) return false;
    cluster.async.force(store.id);
    if (cluster.launch.checks)
      cluster.warn(w, Code::Race, -1,
                   "tcgen05.dealloc frees Tensor Memory column " + std::to_string(*first) + ", which " + by(storing, store.pc) +
                       " stores and has not waited for: that warp needs tcgen05.wait::st before");
    return true;
  });
}

// src: shared destination; list: columns; aux: .cta_group::2
Flow allocate(Warp& w, const Op& op, uint32_t mask) {
  Cta& cta = *w.cta;
  const uint32_t columns = w.uniform<uint32_t>(w.code->lists[op.list], mask);
  uint32_t offset;
  Cta& to = sharedAt(cta, sharedAddress(laneAddress(w, op, 0, static_cast<uint32_t>(std::countr_zero(mask)))),
                     4, false, offset);
  w.faultLane = ~0u;
  uint32_t address = w.pairAlloc.address;
  if (w.pairAlloc.number == 0) {
    if (!cta.tmem.allocate(columns, address)) return Flow::Block;
    cta.tmemColumns += columns;
  }
  if (op.aux) {
    if (w.pairAlloc.number == 0) {
      const Cta* peer = peerOf(cta);
      const uint32_t number = ++cta.pairOffered;
      w.pairAlloc = {number, address, peer && peer->pairOffered >= number};
      ++cta.cluster->epoch;
    }
    if (!metPeer(w)) return Flow::Block;
    w.pairAlloc = {};
    ++cta.pairAllocated;
  }
  cta.tmemPeak = std::max(cta.tmemPeak, cta.tmemColumns);
  std::memcpy(to.shared.bytes.data() + offset, &address, 4);
  std::memset(to.shared.valid.data() + offset, 1, 4);
  if (Ordering* order = cta.cluster->ordering.get()) order->forget(to, offset, 4);
  ++cta.cluster->epoch;
  return Flow::Next;
}

Flow release(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t columns = w.uniform<uint32_t>(w.code->lists[op.list], mask), address = w.uniform<uint32_t>(op.src[0], mask);
  for (const auto& warp : w.cta->warps) landStores(w, *warp, address & 0xffff, columns);
  w.cta->tmem.release(address, columns);
  w.cta->tmemColumns -= columns;
  w.cta->pairReleased += op.aux;
  if (const Cta* peer = peerOf(*w.cta); op.aux && peer && peer->pairAllocated < w.cta->pairReleased)
    throw Fault{Code::TmemAccess, "tcgen05.dealloc.cta_group::2 before the CTA of rank " +
                                      std::to_string(peer->rank) + " has allocated"};
  if (Ordering* order = w.cta->cluster->ordering.get())
    order->freeTmem(*w.cta, address, columns);
  ++w.cta->cluster->epoch;
  return Flow::Next;
}

Flow relinquish(Warp& w, const Op&, uint32_t) {
  w.cta->tmem.relinquish();
  return Flow::Next;
}

TmemTransfer transferOf(const Op& op) {
  TmemTransfer t;
  t.shape = static_cast<TmemShape>(op.aux & 7);
  t.packed = op.aux & 8;
  t.repeat = op.aux >> 4 & 0xff;
  t.halfSplit = op.aux >> 12;
  return t;
}

constexpr size_t kMostTransfers = 512;  // that a warp has not waited for

void landLoads(Warp& w) {
  for (const auto& load : w.tmemLoads) load.land();
  w.tmemLoads.clear();
}
void forceStores(Warp& w) {
  for (const Warp::TmemStore& store : w.tmemStores) w.cta->cluster->async.force(store.id);
  w.tmemStores.clear();
}

// tcgen05.ld and st of one warp are in no order without tcgen05.wait (PTX ISA 9.7.16.6.4), and other warps see stores
// only behind it. The vector clocks of full checks know more of other warps, but nothing of the own one.
void checkTransfers(Warp& w, const TmemCells& cells, bool isLoad) {
  Cluster& cluster = *w.cta->cluster;
  if (!cluster.launch.checks) return;
  const auto warn = [&](uint32_t column, const std::string& rest) {
    cluster.warn(w, Code::Race, -1, std::string("tcgen05.") + (isLoad ? "ld reads" : "st overwrites") +
                                        " Tensor Memory column " + std::to_string(column) + ", which " + rest);
  };
  for (const auto& warp : w.cta->warps) {
    const bool own = warp.get() == &w;
    if (warp->index % 4 != w.index % 4 || (!own && cluster.ordering) || (own && !isLoad)) continue;
    for (const Warp::TmemStore& store : warp->tmemStores)
      if (const auto column = cells.common(store.cells))
        return warn(*column, by(*warp, store.pc) + " stores and has not waited for: that warp needs tcgen05.wait::st" +
                                 (own ? " before it" : ", tcgen05.fence::before_thread_sync and an arrive that this warp waits for"));
  }
  if (isLoad) return;
  for (const auto& warp : w.cta->warps) {
    const bool own = warp.get() == &w;
    if (warp->index % 4 != w.index % 4 || (!own && cluster.ordering)) continue;
    for (const Warp::TmemLoad& load : warp->tmemLoads)
      if (const auto column = cells.common(load.cells))
        return warn(*column, by(*warp, load.pc) + " loads and has not waited for: that warp needs tcgen05.wait::ld before " +
                                 (own ? "it" : "its arrive"));
  }
}

Flow load(Warp& w, const Op& op, uint32_t mask) {
  const TmemTransfer transfer = transferOf(op);
  const uint32_t address = tmemAddress(w, op, 0, mask, true);
  const uint32_t* slots = w.code->lists.data() + op.list;
  const uint32_t count = op.listCount;
  struct Buffer {
    uint32_t registers[kMaxTmemRegisters][32], valid[kMaxTmemRegisters];
  };
  const auto buffer = std::make_shared<Buffer>();
  Warp* warp = &w;
  const auto read = [=] {
    warp->cta->tmem.load(transfer, address, warp->index, buffer->registers, buffer->valid);
  };
  const LaunchConfig::Order order = w.cta->cluster->launch.config->order;
  w.cta->tmem.require(address & 0xffff, transfer.columns(), "tcgen05.ld");
  checkPair(w, "tcgen05.ld");
  const TmemCells cells(transfer, address);
  checkTransfers(w, cells, true);
  if (Ordering* ordering = w.cta->cluster->ordering.get()) ordering->transfer(w, address, transfer, true);
  w.tmemReads.reserve(w.now(), transfer.columns());
  const bool now = order == LaunchConfig::Order::Eager ||
                   (order == LaunchConfig::Order::Random && w.cta->cluster->async.random()() % 2);
  if (now) read();
  if (w.tmemLoads.size() >= kMostTransfers) landLoads(w);  // they may land at any time
  const auto land = [=] {
    if (!now) read();
    for (uint32_t k = 0; k < count; ++k) {
      forLanes(mask, [&](uint32_t i) { warp->at<uint32_t>(slots[k])[i] = buffer->registers[k][i]; });
      warp->setTaint(slots[k], mask, ~buffer->valid[k]);
    }
  };
  w.tmemLoads.push_back({land, w.pc, op.list, count, cells});
  return Flow::Next;
}

Flow waitLoads(Warp& w, const Op&, uint32_t) {
  if (!w.tmemLoads.empty()) w.waitUntil(w.tmemReads.free + timing::kTmemLatency);
  landLoads(w);
  if (Ordering* order = w.cta->cluster->ordering.get()) order->waitTransfers(w, true);
  return Flow::Next;
}

Flow store(Warp& w, const Op& op, uint32_t mask) {
  const TmemTransfer transfer = transferOf(op);
  const uint32_t address = tmemAddress(w, op, 0, mask, true);
  struct Buffer {
    uint32_t registers[kMaxTmemRegisters][32], valid[kMaxTmemRegisters];
  };
  const auto buffer = std::make_shared<Buffer>();
  for (uint32_t k = 0; k < op.listCount; ++k) {
    const uint32_t slot = w.code->lists[op.list + k];
    std::memcpy(buffer->registers[k], w.at<uint32_t>(slot), 128);
    buffer->valid[k] = ~w.taint[slot];
  }
  w.cta->tmem.require(address & 0xffff, transfer.columns(), "tcgen05.st");
  checkPair(w, "tcgen05.st");
  const TmemCells cells(transfer, address);
  checkTransfers(w, cells, false);
  if (Ordering* order = w.cta->cluster->ordering.get()) order->transfer(w, address, transfer, false);
  Warp* warp = &w;
  if (w.tmemStores.size() >= kMostTransfers) forceStores(w);
  const uint64_t id = issue(w, AsyncKind::Tmem, 0, "tcgen05.st", w.now(), [=] {
    warp->cta->tmem.store(transfer, address, warp->index, buffer->registers, buffer->valid);
  });
  w.tmemStores.push_back({id, w.pc, cells});
  return Flow::Next;
}

Flow waitStores(Warp& w, const Op&, uint32_t) {
  forceStores(w);
  if (Ordering* order = w.cta->cluster->ordering.get()) order->waitTransfers(w, false);
  return Flow::Next;
}

// --- cp and shift
// --------------------------------------------------------------------------------------------

struct CopyShape {
  const char* name;
  uint32_t rows, bytes;
  // Destination lanes of source row r: how many copies, and where copy c goes.
  uint32_t copies;
  uint32_t (*lane)(uint32_t row, uint32_t copy);
};
const CopyShape kCopies[] = {
    {"128x256b", 128, 32, 1, [](uint32_t r, uint32_t) { return r; }},
    {"128x128b", 128, 16, 1, [](uint32_t r, uint32_t) { return r; }},
    {"4x256b", 4, 32, 1, [](uint32_t r, uint32_t) { return 32 * r; }},
    {"warpx2::02_13", 64, 16, 2, [](uint32_t r, uint32_t c) { return r + 64 * c; }},
    {"warpx2::01_23", 64, 16, 2, [](uint32_t r, uint32_t c) { return r % 32 + 64 * (r / 32) + 32 * c; }},
    {"warpx4", 32, 16, 4, [](uint32_t r, uint32_t c) { return r + 32 * c; }},
};

enum class Expand : uint32_t { None, Four, Six };
// 16 elements of 4 or 6 bits, packed at the front of a 16-byte chunk, one per byte: 00xxxx00 or 0xxxxxx0.
void expand(uint8_t* chunk, Expand mode) {
  if (mode == Expand::None) return;
  const uint32_t bits = mode == Expand::Four ? 4 : 6;
  uint8_t out[16];
  for (uint32_t e = 0; e < 16; ++e) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < bits; ++i)
      value |= uint32_t(chunk[(e * bits + i) / 8] >> ((e * bits + i) % 8) & 1) << i;
    out[e] = static_cast<uint8_t>(value << (mode == Expand::Four ? 2 : 1));
  }
  std::memcpy(chunk, out, 16);
}

// Shared address of the 16 bytes of a row that start at byte 16 * part.
uint32_t copySource(const SmemDescriptor& source, uint32_t r, uint32_t part) {
  const uint32_t span = traitsOf(source.swizzle).span;
  return source.physical(span ? (r % 8) * span + (r / 8) * source.stride + part * 16
                              : (r % 8) * 16 + (r / 8) * source.stride + part * source.leading);
}

void copyRows(Cta& cta, const CopyShape& shape, Expand mode, uint32_t address, uint64_t descriptor) {
  const SmemDescriptor source = decodeSm100Descriptor(descriptor, "source");
  const uint32_t column = address & 0xffff, base = address >> 16;
  cta.tmem.require(column, shape.bytes / 4, "tcgen05.cp");
  for (uint32_t r = 0; r < shape.rows; ++r)
    for (uint32_t part = 0; part < shape.bytes / 16; ++part) {
      const uint32_t at = copySource(source, r, part);
      if (!cta.shared.holds(at, 16)) requireShared(cta, at, 16, "row " + std::to_string(r) + " of tcgen05.cp");
      uint8_t chunk[16];
      std::memcpy(chunk, cta.shared.bytes.data() + at, 16);
      const uint32_t used = mode == Expand::None ? 4 : mode == Expand::Four ? 2 : 3;  // bytes behind a word
      bool valid[4];
      for (uint32_t word = 0; word < 4; ++word)
        valid[word] = allValid(cta.shared.valid.data() + at + word * used, used);
      expand(chunk, mode);
      for (uint32_t c = 0; c < shape.copies; ++c)
        for (uint32_t word = 0; word < 4; ++word) {
          const uint32_t lane = (base + shape.lane(r, c)) % TensorMemory::kLanes;
          std::memcpy(&cta.tmem.column(column + part * 4 + word)[lane], chunk + word * 4, 4);
          cta.tmem.setValid(lane, column + part * 4 + word, valid[word]);
        }
    }
}

std::vector<Cta*> targets(Warp& w, bool pair) {
  Cluster& cluster = *w.cta->cluster;
  if (!pair) return {w.cta};
  const uint32_t even = w.cta->rank & ~1u;
  if (even + 1 >= cluster.ctas.size())
    throw Fault{Code::Descriptor, "cta_group::2 in a cluster that has no CTA pair"};
  return {cluster.ctas[even].get(), cluster.ctas[even + 1].get()};
}

// aux: index into kCopies | Expand << 4 | pair << 8
Flow copy(Warp& w, const Op& op, uint32_t mask) {
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t address = tmemAddress(w, op, 0, 1u << lane, false);
    const uint64_t descriptor = w.at<uint64_t>(op.src[1])[lane];
    const auto ctas = targets(w, op.aux >> 8);
    const CopyShape& shape = kCopies[op.aux & 15];
    const auto mode = static_cast<Expand>(op.aux >> 4 & 15);
    w.faultLane = lane;
    for (const Cta* cta : ctas) cta->tmem.require(address & 0xffff, shape.bytes / 4, "tcgen05.cp");
    w.faultLane = ~0u;
    if (Ordering* order = w.cta->cluster->ordering.get()) {
      const SmemDescriptor source = decodeSm100Descriptor(descriptor, "source");
      for (Cta* cta : ctas)
        for (uint32_t i = 0; i < shape.rows * shape.bytes / 16; ++i) {
          const uint32_t at = copySource(source, i / (shape.bytes / 16), i % (shape.bytes / 16));
          if (cta->shared.holds(at, 16)) order->readAsync(w, lane, *cta, at, 16, "tcgen05.cp");
        }
      uint32_t groups = 0;  // of 16 lanes
      for (uint32_t r = 0; r < shape.rows; ++r)
        for (uint32_t c = 0; c < shape.copies; ++c)
          groups |= 1u << ((address >> 16) + shape.lane(r, c)) % TensorMemory::kLanes / 16;
      for (Cta* cta : ctas) order->writeTmem(w, lane, *cta, address & 0xffff, shape.bytes / 4, groups, "tcgen05.cp");
    }
    w.cta->umma.reset();
    issue(w, AsyncKind::Tensor, w.cta->rank,
          std::string("tcgen05.cp ") + shape.name + " to column " + std::to_string(address & 0xffff), w.now(), [=] {
            for (Cta* cta : ctas) copyRows(*cta, shape, mode, address, descriptor);
          });
  });
  return Flow::Next;
}

Flow shift(Warp& w, const Op& op, uint32_t mask) {
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t address = tmemAddress(w, op, 0, 1u << lane, false);
    const uint32_t column = address & 0xffff;
    const auto ctas = targets(w, op.aux);
    w.faultLane = lane;
    if (address >> 16 != 0)
      throw Fault{Code::TmemAccess, "tcgen05.shift: the lane of the address is " + std::to_string(address >> 16) +
                                        ", must be 0: what the lanes before another multiple of 32 do, the PTX ISA does not say"};
    for (const Cta* cta : ctas) cta->tmem.require(column, TensorMemory::kShifted, "tcgen05.shift");
    w.faultLane = ~0u;
    if (Ordering* order = w.cta->cluster->ordering.get())
      for (Cta* cta : ctas) order->writeTmem(w, lane, *cta, column, TensorMemory::kShifted, 0xff, "tcgen05.shift");
    w.cta->umma.reset();
    issue(w, AsyncKind::Tensor, w.cta->rank, "tcgen05.shift", w.now(), [=] {
      for (Cta* cta : ctas) cta->tmem.shiftDown(column);
    });
  });
  return Flow::Next;
}

constexpr Range kColumnRange{"the number of columns", 32, TensorMemory::kColumns, 1, true};

void transferBuild(Builder& b, bool isLoad) {
  static const char* const shapes[] = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"};
  uint32_t shape = 0, repeat = 1;
  for (uint32_t i = 0; i < 5; ++i)
    if (b.has(shapes[i])) shape = i;
  for (const auto& m : b.ins.modifiers)
    if (m[0] == 'x') repeat = static_cast<uint32_t>(std::atoi(m.c_str() + 1));
  const bool split = shape == 4;
  const std::vector<uint32_t> slots = b.registers(isLoad ? 0 : split ? 2 : 1, isLoad);
  b.address(isLoad ? 1 : 0, 0);
  const int64_t half = split ? b.immediate(isLoad ? 2 : 1, {"immHalfSplitoff", 0, TensorMemory::kColumns - 1}) : 0;
  b.op.aux = shape | (b.has("pack::16b") || b.has("unpack::16b") ? 8u : 0u) | repeat << 4 | static_cast<uint32_t>(half) << 12;
  if (transferOf(b.op).registers() > kMaxTmemRegisters) b.refuse("no instruction has that many registers");
  if (transferOf(b.op).registers() != slots.size())
    b.refuse("expected " + std::to_string(transferOf(b.op).registers()) + " registers");
  b.op.list = b.list(slots);
  b.op.listCount = static_cast<uint32_t>(slots.size());
  b.op.flags |= kAligned;
  b.op.run = isLoad ? &load : &store;
}

}  // namespace

void useLoads(Warp& w, const Op& op) {
  const uint32_t* lists = w.code->lists.data();
  const bool loads = op.run == &load;
  const auto within = [&](const Warp::TmemLoad& pending, uint32_t slot) {
    return std::find(lists + pending.list, lists + pending.list + pending.count, slot) != lists + pending.list + pending.count;
  };
  size_t landed = 0;
  for (size_t i = 0; i < w.tmemLoads.size(); ++i) {
    const Warp::TmemLoad& pending = w.tmemLoads[i];
    bool listed = false, read = within(pending, op.guard);
    for (const uint32_t slot : op.src) read |= within(pending, slot);
    if (op.branch != Op::Branch::Table)
      for (uint32_t k = 0; k < op.listCount; ++k) listed |= within(pending, lists[op.list + k]);
    read |= listed && !loads;
    if (!read && !listed && !within(pending, op.dst)) continue;
    landed = i + 1;
    // Compilers copy registers before the wait.
    if (!read || op.flags & kMove || !w.cta->cluster->launch.checks) continue;
    const ptx::Instruction& source = *w.code->source[pending.pc];
    w.cta->cluster->remark(w, Code::Race, -1,
                           "this instruction reads a register of the tcgen05.ld at ptx line " + std::to_string(source.line) +
                               (source.cudaLine ? " (cuda line " + std::to_string(source.cudaLine) + ")" : "") +
                               " before tcgen05.wait::ld: the value is there, but Tensor Memory is not yet free for others");
  }
  for (size_t i = 0; i < landed; ++i) w.tmemLoads[i].land();
  w.tmemLoads.erase(w.tmemLoads.begin(), w.tmemLoads.begin() + static_cast<std::ptrdiff_t>(landed));
}

void markLoads(EntryCode& code) {
  std::vector<bool> used(code.slots);
  bool any = false;
  for (const Op& op : code.ops)
    if (op.run == &load)
      for (uint32_t i = 0; i < op.listCount; ++i) any = used[code.lists[op.list + i]] = true;
  if (!any) return;
  for (Op& op : code.ops)
    if (used[op.dst] || used[op.guard] || reads(code, op, used)) op.flags |= kLoaded;
}

void addTmemRows(Table& t) {
  const std::string group = " cta_group::1|cta_group::2 ",
                    shapes = "32x32b|16x64b|16x128b|16x256b|16x32bx2 x1|x2|x4|x8|x16|x32|x64|x128 ";
  t.push_back({"tcgen05", "alloc" + group + "sync aligned shared::cta? b32", [](Builder& b) {
                 b.address(0, 0);
                 b.bound(1, kColumnRange);
                 b.op.list = b.list({b.source(1, 4)});
                 b.op.flags |= kAligned;
                 b.op.wait = Wait::Tmem;
                 b.op.aux = b.has("cta_group::2");
                 b.op.run = &allocate;
               }});
  t.push_back({"tcgen05", "dealloc" + group + "sync aligned b32", [](Builder& b) {
                 b.op.src[0] = b.source(0, 4);
                 b.bound(1, kColumnRange);
                 b.op.list = b.list({b.source(1, 4)});
                 b.op.flags |= kAligned;
                 b.op.aux = b.has("cta_group::2");
                 b.op.run = &release;
               }});
  const auto aligned = [&](const std::string& pattern, Handler handler) {
    t.push_back({"tcgen05", pattern + " sync aligned", [handler](Builder& b) {
                   b.op.flags |= kAligned;
                   b.op.run = handler;
                 }});
  };
  aligned("relinquish_alloc_permit" + group, &relinquish);
  aligned("wait::ld", &waitLoads);
  aligned("wait::st", &waitStores);
  t.push_back({"tcgen05", "ld sync aligned " + shapes + "pack::16b? b32",
               [](Builder& b) { transferBuild(b, true); }});
  t.push_back({"tcgen05", "st sync aligned " + shapes + "unpack::16b? b32",
               [](Builder& b) { transferBuild(b, false); }});
  t.push_back({"tcgen05",
               "cp" + group +
                   "128x256b|128x128b|4x256b|64x128b|32x128b warpx2::02_13|warpx2::01_23|warpx4? b8x16? "
                   "b4x16_p64|b6x16_p32?",
               [](Builder& b) {
                 b.address(0, 0);
                 b.op.src[1] = b.source(1, 8);
                 uint32_t shape = 0;
                 for (uint32_t i = 0; i < std::size(kCopies); ++i)
                   if (b.has(kCopies[i].name)) shape = i;
                 if ((b.has("64x128b") && (shape != 3 && shape != 4)) || (b.has("32x128b") && shape != 5))
                   b.refuse("this shape needs a .warpx qualifier");
                 b.op.aux = shape |
                            (b.has("b4x16_p64")   ? 1u
                             : b.has("b6x16_p32") ? 2u
                                                  : 0u)
                                << 4 |
                            (b.has("cta_group::2") ? 256u : 0u);
                 b.op.run = &copy;
               }});
  t.push_back({"tcgen05", "shift" + group + "down", [](Builder& b) {
                 b.address(0, 0);
                 b.op.aux = b.has("cta_group::2");
                 b.op.run = &shift;
               }});
}

}  // namespace ktl
