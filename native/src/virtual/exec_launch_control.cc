// Cluster launch control (PTX ISA 9.7.13.16).
#include "exec_async.h"
#include "exec_lanes.h"

namespace ktl {
namespace {

// clusterlaunchcontrol.try_cancel: src: response, -, mbarrier. The response: {1 or 0, x, y, z} as 32-bit
// words.
Flow tryCancel(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t response = sharedPlace(cluster, laneAddress(w, op, 0, lane)).offset,
                   barrier = sharedPlace(cluster, laneAddress(w, op, 2, lane)).offset;
    requireShared(*w.cta, response, 16, "the response of cluster launch control");
    if (response % 16)
      throw Fault{Code::Misaligned,
                  "cluster launch control response at " + hex(response) + " is not 16-byte aligned"};
    const uint32_t ranks = op.aux ? (1u << cluster.ctas.size()) - 1 : 1u << w.cta->rank;
    const Destination d{response, barrier, ranks};
    const Sent sent = signals(w, lane, d, "clusterlaunchcontrol.try_cancel");
    issue(w, AsyncKind::Load, 0, "clusterlaunchcontrol.try_cancel", w.now() + timing::kRemoteLatency,
          [=, &cluster] {
      Launch& launch = cluster.launch;
      uint32_t words[4] = {};
      if (const auto place = launch.queue->cancel(cluster.place.extents)) {
        words[0] = 1;
        for (int d = 0; d < 3; ++d) words[d + 1] = place->first[d];
        launch.ctasDone += place->ctas();
        ++launch.clustersDone;
      }
      forLanes(ranks, [&](uint32_t rank) {
        Cta& cta = alive(cluster, rank);
        std::memcpy(cta.shared.bytes.data() + response, words, 16);
        std::memset(cta.shared.valid.data() + response, 1, 16);
        if (sent) cluster.ordering->forget(cta, response, 16);
        completeTx(cluster, rank, barrier, 16, sent);
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

}  // namespace

void addLaunchControlRows(Table& t) {
  const std::string mbar = "mbarrier::complete_tx::bytes ";
  t.push_back({"clusterlaunchcontrol",
               "try_cancel async shared::cta? " + mbar + "multicast::cluster::all? b128", [](Builder& b) {
                 b.address(0, 0);
                 b.address(1, 2);
                 b.op.aux = b.has("multicast::cluster::all");
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
