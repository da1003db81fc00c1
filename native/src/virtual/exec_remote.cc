// Asynchronous stores and reductions into the shared memory of a cluster, and st.bulk (PTX ISA 9.7.9.12,
// 9.7.9.13, 9.7.13.7, 9.7.9.25.4.2).
#include "exec_async.h"
#include "exec_lanes.h"
#include "traffic.h"

namespace ktl {
namespace {

// st.async: src: destination, -, mbarrier; list: values of aux bytes.
Flow storeAsync(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  std::array<uint32_t, 16> sent{};
  forLanes(mask, [&](uint32_t lane) { sent[effectiveAddress(w, op, 0, lane) >> 24 & 15] += op.listCount * op.aux; });
  const uint64_t done = timeRemote(w, sent);
  forLanes(mask, [&](uint32_t lane) {
    std::vector<uint8_t> data(op.listCount * op.aux);
    for (uint32_t k = 0; k < op.listCount; ++k)
      std::memcpy(data.data() + k * op.aux, w.at<uint8_t>(w.code->lists[op.list + k]) + lane * op.aux,
                  op.aux);
    const uint32_t to = sharedAddress(laneAddress(w, op, 0, lane)),
                   barrier = sharedPlace(cluster, laneAddress(w, op, 2, lane)).offset;
    uint32_t offset;
    Cta& cta = sharedAt(*w.cta, to, static_cast<uint32_t>(data.size()), true, offset);
    if (offset % data.size()) throw Fault{Code::Misaligned, "st.async to " + hex(to)};
    const auto bytes = static_cast<uint32_t>(data.size());
    if (cluster.ordering) cluster.ordering->overwrite(w, lane, cta.rank, offset, bytes, "this st.async");
    const Sent told = signals(w, lane, {offset, barrier, 1u << cta.rank}, "this st.async");
    issue(w, AsyncKind::Load, 0, "st.async of " + std::to_string(bytes) + " bytes to " + hex(to), done,
          [=, &cta, &cluster] {
            std::memcpy(cta.shared.bytes.data() + offset, data.data(), bytes);
            std::memset(cta.shared.valid.data() + offset, 1, bytes);
            if (told) cluster.ordering->forget(cta, offset, bytes);
            completeTx(cluster, cta.rank, barrier, bytes, told);
          });
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

// aux of reductions: Reduction | TensorElement << 8. A target that nobody wrote stays uninitialised.
void reduceShared(Cta& cta, uint32_t offset, const uint8_t* source, uint32_t bytes, uint32_t aux) {
  const auto element = static_cast<TensorElement>(aux >> 8);
  reduceElements(element, static_cast<Reduction>(aux & 0xff), cta.shared.bytes.data() + offset, source,
                 bytes / traitsOf(element).bytes);
}

// red.async: src: destination, value, mbarrier.
Flow reduceAsync(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  const uint32_t bytes = traitsOf(static_cast<TensorElement>(op.aux >> 8)).bytes, aux = op.aux;
  forLanes(mask, [&](uint32_t lane) {
    const uint64_t value = bytes == 8 ? w.at<uint64_t>(op.src[1])[lane] : w.at<uint32_t>(op.src[1])[lane];
    const uint32_t to = sharedAddress(laneAddress(w, op, 0, lane)),
                   barrier = sharedPlace(cluster, laneAddress(w, op, 2, lane)).offset;
    uint32_t offset;
    Cta& cta = sharedAt(*w.cta, to, bytes, true, offset);
    if (offset % bytes) throw Fault{Code::Misaligned, "red.async to " + hex(to)};
    if (cluster.ordering) cluster.ordering->overwrite(w, lane, cta.rank, offset, bytes, "this red.async");
    const Sent sent = signals(w, lane, {offset, barrier, 1u << cta.rank}, "this red.async");
    issue(w, AsyncKind::Load, 0, "red.async of " + std::to_string(bytes) + " bytes to " + hex(to),
          w.now() + timing::kRemoteLatency,
          [=, &cta, &cluster] {
            reduceShared(cta, offset, reinterpret_cast<const uint8_t*>(&value), bytes, aux);
            if (sent) cluster.ordering->forget(cta, offset, bytes);
            completeTx(cluster, cta.rank, barrier, bytes, sent);
          });
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

// cp.reduce.async.bulk within a cluster: src: destination, own source, mbarrier; list: size.
Flow reduceBulk(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  const uint32_t aux = op.aux;
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t size = w.at<uint32_t>(w.code->lists[op.list])[lane];
    const uint32_t to = sharedAddress(laneAddress(w, op, 0, lane)),
                   from = sharedAddress(laneAddress(w, op, 1, lane)),
                   barrier = sharedPlace(cluster, laneAddress(w, op, 2, lane)).offset;
    if ((to | from | size) % 16)
      throw Fault{Code::Misaligned, "bulk reduction of " + std::to_string(size) + " bytes from " + hex(from) +
                                        " to " + hex(to) + ": all must be multiples of 16"};
    if (size == 0) return;
    uint32_t offset, source;
    Cta& own = sharedAt(*w.cta, from, size, false, source);
    Cta& cta = sharedAt(*w.cta, to, size, true, offset);
    if (cluster.ordering) {
      cluster.ordering->readAsync(w, lane, own, source, size, "this bulk reduction");
      cluster.ordering->overwrite(w, lane, cta.rank, offset, size, "this bulk reduction");
    }
    const Sent sent = signals(w, lane, {offset, barrier, 1u << cta.rank}, "this bulk reduction");
    issue(w, AsyncKind::Load, 0, "bulk reduction of " + std::to_string(size) + " bytes to " + hex(to),
          w.now() + timing::kRemoteLatency,
          [=, &cta, &own, &cluster] {
            reduceShared(cta, offset, own.shared.bytes.data() + source, size, aux);
            for (uint32_t i = 0; i < size; ++i) cta.shared.valid[offset + i] &= own.shared.valid[source + i];
            if (sent) cluster.ordering->forget(cta, offset, size);
            completeTx(cluster, cta.rank, barrier, size, sent);
          });
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

// st.bulk: zeros. src: destination, size.
Flow zero(Warp& w, const Op& op, uint32_t mask) {
  forLanes(mask, [&](uint32_t lane) {
    const uint64_t size = w.at<uint64_t>(op.src[1])[lane];
    const uint32_t to = sharedAddress(laneAddress(w, op, 0, lane));
    if ((to | size) % 8)
      throw Fault{Code::Misaligned, "st.bulk of " + std::to_string(size) + " bytes to " + hex(to) +
                                        ": both must be multiples of 8"};
    uint32_t offset;
    Cta& cta = sharedAt(*w.cta, to, size, false, offset);
    if (Ordering* order = w.cta->cluster->ordering.get())
      order->access(w, op, 1u << lane, static_cast<uint32_t>(size), SharedAccess::Store);
    std::memset(cta.shared.bytes.data() + offset, 0, size);
    std::memset(cta.shared.valid.data() + offset, 1, size);
  });
  w.faultLane = ~0u;
  ++w.cta->cluster->epoch;
  return Flow::Next;
}

uint32_t reductionAndElement(Builder& b) {
  return static_cast<uint32_t>(reductionOf(b)) | static_cast<uint32_t>(elementOf(b)) << 8;
}

}  // namespace

void addRemoteRows(Table& t) {
  const std::string mbar = "mbarrier::complete_tx::bytes ", ops = "add|min|max|inc|dec|and|or|xor ";
  t.push_back({"st", "async weak? shared::cluster " + mbar + "v2|v4? b32|b64|u32|u64|s32|s64|f32|f64",
               [](Builder& b) {
                 b.address(0, 0);
                 const ptx::Operand& value = b.operand(1);
                 std::vector<uint32_t> slots;
                 b.op.aux = typeBytes(b.type());
                 for (const ptx::Operand* e : b.vector(value)) slots.push_back(b.sourceOf(*e, b.op.aux));
                 b.op.list = b.list(slots);
                 b.op.listCount = static_cast<uint32_t>(slots.size());
                 b.address(2, 2);
                 b.op.run = &storeAsync;
               }});
  t.push_back({"red", "async relaxed cluster shared::cluster? " + mbar + ops + "u32|s32|u64|b32",
               [](Builder& b) {
                 b.op.aux = reductionAndElement(b);
                 b.address(0, 0);
                 b.op.src[1] = b.source(1, traitsOf(elementOf(b)).bytes);
                 b.address(2, 2);
                 b.op.run = &reduceAsync;
               }});
  t.push_back({"cp", "reduce async bulk shared::cluster shared::cta " + mbar + ops + "u32|s32|u64|b32",
               [](Builder& b) {
                 b.op.aux = reductionAndElement(b);
                 b.address(0, 0);
                 b.address(1, 1);
                 b.bound(2, kBulkRange);
                 b.op.list = b.list({b.source(2, 4)});
                 b.op.listCount = 1;
                 b.address(3, 2);
                 b.op.run = &reduceBulk;
               }});
  t.push_back({"st", "bulk weak? shared::cta?", [](Builder& b) {
                 setSpace(b);
                 b.address(0, 0);
                 b.bound(1, kBulkZeroRange);
                 if (b.operands() > 2) b.immediate(2, {"the value that st.bulk stores", 0, 0});
                 b.op.src[1] = b.source(1, 8);
                 b.op.run = &zero;
               }});
}

}  // namespace ktl
