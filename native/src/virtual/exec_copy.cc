// cp.async: per-thread asynchronous copies to shared memory (PTX ISA 9.7.9.25.3).
#include "exec_async.h"
#include "ordering.h"
#include "traffic.h"

namespace ktl {
namespace {

Warp::AsyncGroups& groupsOf(Warp& w, uint32_t lane) {
  if (!w.copyGroups) w.copyGroups = std::make_unique<std::array<Warp::AsyncGroups, 32>>();
  return (*w.copyGroups)[lane];
}

// src: shared destination, global source, source size (aux >> 8: 1 size operand, 2 ignore-src predicate). aux
// & 0xff: bytes.
Flow copy(Warp& w, const Op& op, uint32_t mask) {
  struct Part {
    uint8_t *to, *valid;
    const uint8_t* from;
    uint32_t bytes;
  };
  const uint32_t bytes = op.aux & 0xff, mode = op.aux >> 8;
  Access to, from;
  gatherAddresses(w, op, mask, 0, to);
  gatherAddresses(w, op, mask, 1, from);
  Op shared = op, global = op;
  shared.space = ptx::Space::Shared;
  global.space = ptx::Space::Global;
  forLanes(mask, [&](uint32_t i) { to.address[i] = sharedAddress(to.address[i]); });
  resolve(w, shared, mask, bytes, bytes, true, to);
  std::vector<Part> parts;
  uint32_t reading = 0;
  std::array<uint32_t, 32> size{};
  forLanes(mask, [&](uint32_t i) {
    size[i] = mode == 1 ? std::min(w.at<uint32_t>(op.src[2])[i], bytes)
              : mode == 2 && ((w.pred(op.src[2]) ^ op.members) >> i & 1) ? 0
                                                                         : bytes;
    reading |= uint32_t{size[i] != 0} << i;
  });
  // Of the source, no more is read than its size; lanes of one size are resolved together.
  for (uint32_t rest = reading; rest;) {
    const uint32_t some = size[std::countr_zero(rest)];
    uint32_t same = 0;
    forLanes(rest, [&](uint32_t i) { same |= uint32_t{size[i] == some} << i; });
    resolve(w, global, same, some, bytes, false, from);
    rest &= ~same;
  }
  if (Ordering* order = w.cta->cluster->ordering.get())
    forLanes(mask, [&](uint32_t i) {
      const uint32_t offset = to.address[i] & 0xffffff;
      order->overwrite(w, i, w.cta->rank, offset, bytes, "this cp.async");
      order->forget(*w.cta, offset, bytes);
    });
  forLanes(mask, [&](uint32_t i) { parts.push_back({to.data[i], to.valid[i], from.data[i], size[i]}); });
  const uint64_t done = std::max(w.now(), timeCopy(w, global, 1, reading, bytes));
  const uint64_t id =
      issue(w, AsyncKind::Copy, 0, "cp.async to shared memory at " + hex(to.address[std::countr_zero(mask)]), done,
            [parts, bytes] {
              for (const Part& part : parts) {
                if (part.bytes) std::memcpy(part.to, part.from, part.bytes);
                std::memset(part.to + part.bytes, 0, bytes - part.bytes);
                std::memset(part.valid, 1, bytes);
              }
            });
  forLanes(mask, [&](uint32_t i) {
    join(w, groupsOf(w, i), id);
    groupsOf(w, i).open.done = done;
  });
  return Flow::Next;
}

Flow commit(Warp& w, const Op&, uint32_t mask) {
  forLanes(mask, [&](uint32_t i) { commitGroup(w, groupsOf(w, i)); });
  return Flow::Next;
}

Flow wait(Warp& w, const Op& op, uint32_t mask) {
  forLanes(mask, [&](uint32_t i) {
    if (op.aux) commitGroup(w, groupsOf(w, i));
    waitGroups(w, groupsOf(w, i), static_cast<uint64_t>(op.imm));
  });
  return Flow::Next;
}

// cp.async.mbarrier.arrive: arrives when this thread's earlier copies have finished (PTX ISA 9.7.13.15.17, which says
// of nothing else that the thread has done that others see it by this). aux: .noinc.
Flow arrive(Warp& w, const Op& op, uint32_t mask) {
  forLanes(mask, [&](uint32_t i) {
    uint32_t offset;
    Cta& cta = sharedAt(*w.cta, sharedAddress(laneAddress(w, op, 0, i)), 8, false, offset);
    if (!op.aux) cta.mbarrier(offset, "cp.async.mbarrier.arrive").raise();
    std::vector<uint64_t> before = groupsOf(w, i).open.ids;
    for (const auto& group : groupsOf(w, i).committed)
      before.insert(before.end(), group.ids.begin(), group.ids.end());
    AsyncEngine& engine = w.cta->cluster->async;
    issue(w, AsyncKind::Copy, 0, "cp.async.mbarrier.arrive on " + hex(offset), w.now(),
          [&cta, offset, before, &engine] {
            for (const uint64_t id : before) engine.force(id);
            Mbarrier& barrier = cta.mbarrier(offset, "cp.async.mbarrier.arrive");
            barrier.arrive(1);
            ++cta.cluster->epoch;
          });
  });
  return Flow::Next;
}

}  // namespace

void addCopyRows(Table& t) {
  t.push_back({"cp", "async ca|cg shared|shared::cta global L2::cache_hint? L2::64B|L2::128B|L2::256B?",
               [](Builder& b) {
                 b.address(0, 0);
                 b.address(1, 1);
                 const int64_t bytes = b.immediate(2, {"the size of cp.async", b.has("cg") ? 16 : 4, 16, 1, true});
                 b.op.aux = static_cast<uint32_t>(bytes);
                 if (b.operands() > 3 && b.width(b.operand(3)) == 1) {
                   b.op.src[2] = b.predicate(3, &b.op.members);
                   b.op.aux |= 2 << 8;
                 } else if (b.operands() > 3 && !(b.operands() == 4 && b.has("L2::cache_hint"))) {
                   b.bound(3, {"the source size of cp.async", 0, bytes});
                   b.op.src[2] = b.source(3, 4);
                   b.op.aux |= 1 << 8;
                 }
                 b.op.run = &copy;
               }});
  t.push_back({"cp", "async commit_group", [](Builder& b) { b.op.run = &commit; }});
  t.push_back({"cp", "async wait_group", [](Builder& b) {
                 b.op.imm = b.immediate(0, kGroupRange);
                 b.op.run = &wait;
               }});
  t.push_back({"cp", "async wait_all", [](Builder& b) {
                 b.op.aux = 1;
                 b.op.run = &wait;
               }});
  t.push_back({"cp", "async mbarrier arrive noinc? shared|shared::cta? b64", [](Builder& b) {
                 b.address(0, 0);
                 b.op.aux = b.has("noinc");
                 b.op.run = &arrive;
               }});
}

}  // namespace ktl
