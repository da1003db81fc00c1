// Branches, calls, exit, traps (PTX ISA 9.7.12) and instructions without an effect on values.
#include "cta.h"
#include "exec_builtin.h"
#include "exec_lanes.h"
#include "exec_memory.h"
#include "ordering.h"
#include "traffic.h"

namespace ktl {
namespace {

void checkGuard(Warp& w, const Op& op) {
  const uint32_t tainted = w.taint[op.guard] & w.active;
  if (tainted && w.cta->cluster->launch.checks)
    w.cta->cluster->warn(w, Code::Uninitialised, std::countr_zero(tainted),
                         "the branch depends on uninitialised data");
}

Flow branch(Warp& w, const Op& op, uint32_t mask) {
  checkGuard(w, op);
  if (mask == w.active)
    w.pc = static_cast<uint32_t>(op.imm);
  else if (mask == 0)
    ++w.pc;
  else
    w.split(mask, static_cast<uint32_t>(op.imm));
  return Flow::Jump;
}

// brx.idx: lanes that choose the same target stay together.
Flow branchTable(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t* index = w.at<uint32_t>(op.src[0]);
  uint32_t left = mask;
  const uint32_t stay = w.active & ~mask, next = w.pc + 1;
  std::vector<Group> parts;
  if (stay) parts.push_back({next, stay, false, false});
  while (left) {
    const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left)), value = index[lane];
    if (value >= op.listCount) {
      w.faultLane = lane;
      throw Fault{Code::OutOfBounds,
                  "branch table index " + std::to_string(value) + " of " + std::to_string(op.listCount)};
    }
    uint32_t same = 0;
    forLanes(left, [&](uint32_t i) { same |= uint32_t{index[i] == value} << i; });
    left &= ~same;
    parts.push_back({w.code->lists[op.list + value], same, false, false});
  }
  w.pc = parts[0].pc;
  w.active = parts[0].mask;
  w.groups.insert(w.groups.end(), parts.begin() + 1, parts.end());
  return Flow::Jump;
}

// list: triples (source offset, destination offset, bytes) in the lane's local block.
void copyLocal(Warp& w, const Op& op, uint32_t mask) {
  for (uint32_t k = 0; k < op.listCount; k += 3) {
    const uint32_t* part = &w.code->lists[op.list + k];
    forLanes(mask, [&](uint32_t i) {
      uint8_t* base = w.local.data() + uint64_t{i} * w.code->localBytes;
      std::memmove(base + part[1], base + part[0], part[2]);
    });
  }
}
Flow copyResults(Warp& w, const Op& op, uint32_t mask) {
  copyLocal(w, op, mask);
  return Flow::Next;
}

Flow call(Warp& w, const Op& op, uint32_t mask) {
  copyLocal(w, op, mask);
  forLanes(mask, [&](uint32_t i) {
    if (w.depth[i] >= w.code->callDepth) throw Fault{Code::UnsupportedCall, "the call stack is too deep"};
    w.returns[w.depth[i]++ * 32 + i] = w.pc + 1;
  });
  if (mask == w.active)
    w.pc = static_cast<uint32_t>(op.imm);
  else
    w.split(mask, static_cast<uint32_t>(op.imm));
  return Flow::Jump;
}

Flow exitLanes(Warp& w, const Op&, uint32_t mask) {
  w.leave(mask);
  if (w.active) return Flow::Next;
  return Flow::Jump;
}

Flow ret(Warp& w, const Op& op, uint32_t mask) {
  uint32_t leaving = 0;
  forLanes(mask, [&](uint32_t i) { leaving |= uint32_t{w.depth[i] == 0} << i; });
  if (leaving == mask) return exitLanes(w, op, mask);
  if (leaving) w.leave(leaving);
  // Lanes may return to different callers.
  uint32_t left = mask & ~leaving;
  const uint32_t stay = w.active & ~mask, next = w.pc + 1;
  std::vector<Group> parts;
  if (stay & w.live) parts.push_back({next, stay & w.live, false, false});
  while (left) {
    const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
    const uint32_t target = w.returns[(w.depth[lane] - 1) * 32 + lane];
    uint32_t same = 0;
    forLanes(left,
             [&](uint32_t i) { same |= uint32_t{w.returns[(w.depth[i] - 1) * 32 + i] == target} << i; });
    left &= ~same;
    parts.push_back({target, same, false, false});
  }
  forLanes(mask & ~leaving, [&](uint32_t i) { --w.depth[i]; });
  w.pc = parts[0].pc;
  w.active = parts[0].mask;
  w.groups.insert(w.groups.end(), parts.begin() + 1, parts.end());
  return Flow::Jump;
}

Flow trap(Warp& w, const Op&, uint32_t mask) {
  w.faultLane = static_cast<uint32_t>(std::countr_zero(mask));
  throw Fault{Code::Trap, "the kernel executed a trap"};
}

// pmevent 7 (PTX ISA 9.7.20.2): on a GPU it counts for a profiler and changes nothing; here generated kernels say by it that an
// index read from memory lies outside.
Flow indexOutside(Warp& w, const Op&, uint32_t mask) {
  if (mask) w.cta->cluster->warn(w, Code::IndexOutside, std::countr_zero(mask), "an index read from memory lies outside its tensor");
  return Flow::Next;
}

// pmevent 6: the next store to global memory of each lane is at a place that was looked up.
Flow scattersNext(Warp& w, const Op&, uint32_t mask) {
  w.scatters |= mask;
  return Flow::Next;
}

enum Unsupported : uint32_t { kSystem, kIndirect, kRecursive };
// Only what executes it cannot run. aux: Unsupported.
Flow unsupportedCall(Warp& w, const Op& op, uint32_t mask) {
  w.faultLane = static_cast<uint32_t>(std::countr_zero(mask));
  const auto& target = w.code->source[w.pc]->operands[1];
  throw Fault{Code::UnsupportedCall, op.aux == kIndirect     ? "indirect calls are not supported"
                                     : op.aux == kRecursive ? "recursive call of " + target.name + " is not supported"
                                                            : "call of " + target.name + ", which the virtual device does not offer"};
}

using Kind = ptx::Operand::Kind;

void callBuild(Builder& b) {
  const ptx::Operand &returns = b.operand(0), &target = b.operand(1), &arguments = b.operand(2);
  b.op.run = &unsupportedCall;
  if (target.kind != Kind::Function || target.symbol < 0) {
    b.op.aux = kIndirect;
    return;
  }
  if (b.recurses(target.symbol)) {
    b.op.aux = kRecursive;
    return;
  }
  const ptx::Function& callee = b.module().functions.at(target.symbol);
  const auto pairs = [&](const std::vector<ptx::Operand>& actual, const std::vector<int32_t>& formal,
                         bool toCallee) {
    std::vector<uint32_t> list;
    if (callee.hasBody && actual.size() != formal.size()) b.refuse("wrong number of arguments");
    for (size_t i = 0; i < actual.size(); ++i) {
      if (actual[i].kind != Kind::Symbol || !b.isCallParam(actual[i].symbol))
        b.refuse("call arguments must be .param variables of the calling function");
      const uint32_t outer = b.frameOffset(actual[i].symbol),
                     inner = callee.hasBody ? b.frameOffset(formal[i]) : 0;
      const auto bytes = static_cast<uint32_t>(b.variable(actual[i].symbol).bytes);
      list.insert(
          list.end(),
          {toCallee ? outer : inner, toCallee ? inner : outer,
           callee.hasBody ? std::min(bytes, static_cast<uint32_t>(b.variable(formal[i]).bytes)) : bytes});
    }
    return list;
  };
  const auto in = pairs(arguments.elements, callee.params, true);
  b.op.list = b.list(in);
  b.op.listCount = static_cast<uint32_t>(in.size());
  if (!callee.hasBody) {
    const auto out = pairs(returns.elements, callee.returns, false);
    const Handler builtin = builtinOf(callee.name);
    if (!builtin) return;
    b.op.run = builtin;
    b.op.aux = out.size() == 3 && out[2] >= sizeof(int32_t) ? out[1] : ~0u;
    return;
  }
  b.op.imm = b.calleeStart(target.symbol);
  b.op.run = &call;
  const auto out = pairs(returns.elements, callee.returns, false);
  Op results;
  results.list = b.list(out);
  results.listCount = static_cast<uint32_t>(out.size());
  results.run = &copyResults;
  b.after_.push_back(results);
}

Flow nothing(Warp&, const Op&, uint32_t) { return Flow::Next; }

Flow release(Warp& w, const Op& op, uint32_t mask) {
  timeRelease(w);
  return countFence<&Ordering::fenceRelease>(w, op, mask);
}

void fenceBuild(Builder& b) {
  const auto& m = b.ins.modifiers;
  const bool async =
      std::any_of(m.begin(), m.end(), [](const auto& part) { return part.starts_with("async"); });
  b.op.run = b.has("mbarrier_init")           ? &countFence<&Ordering::fenceInit>
             : async && !b.has("global")      ? &countFence<&Ordering::fenceProxy>
             : b.has("proxy") || b.has("cta") ? &nothing
                                              : &release;
}

}  // namespace

void addControlRows(Table& t) {
  t.push_back({"bra", "uni?", [](Builder& b) {
                 if (b.operand(0).kind != Kind::Label) b.refuse("the target is not a label");
                 b.op.imm = b.operand(0).label;
                 b.op.branch = Op::Branch::Label;
                 b.op.flags |= kRunsEmpty;
                 b.op.run = &branch;
               }});
  t.push_back({"brx", "idx uni?", [](Builder& b) {
                 if (b.operand(1).kind != Kind::Table) b.refuse("the second operand is not a branch table");
                 b.op.src[0] = b.source(0, 4);
                 const auto targets = b.branchTable(b.operand(1).label);
                 b.op.list = b.list(targets);
                 b.op.listCount = static_cast<uint32_t>(targets.size());
                 b.op.branch = Op::Branch::Table;
                 b.op.run = &branchTable;
               }});
  t.push_back({"call", "uni?", callBuild});
  t.push_back({"ret", "uni?", [](Builder& b) { b.op.run = &ret; }});
  t.push_back({"exit", "", [](Builder& b) { b.op.run = &exitLanes; }});
  t.push_back({"trap", "", [](Builder& b) { b.op.run = &trap; }});
  const auto ignore = [](Builder& b) { b.op.run = &nothing; };
  t.push_back({"brkpt", "", ignore});
  t.push_back({"pmevent", "mask?", [](Builder& b) {
                 const int64_t event = b.immediate(0, {"the event", 0, b.has("mask") ? 0xffff : 15});
                 b.op.run = b.has("mask") ? &nothing : event == 7 ? &indexOutside : event == 6 ? &scattersNext : &nothing;
               }});
  t.push_back({"nanosleep", "u32", ignore});
  t.push_back({"membar", "cta|gl|sys|gpu|cluster proxy? alias?", [](Builder& b) {
                 b.op.run = b.has("cta") ? &nothing : &release;
               }});
  t.push_back({"fence",
               "sc|acq_rel|acquire|release? cta|cluster|gpu|sys? proxy? mbarrier_init? "
               "alias|async|tensormap::generic|async.*|async::*? "
               "shared::cta|shared::cluster|global? sync_restrict::*? tensormap::*?",
               fenceBuild});
  t.push_back({"griddepcontrol", "wait|launch_dependents", ignore});
  t.push_back({"setmaxnreg", "inc|dec sync aligned u32", [](Builder& b) {
                 b.immediate(0, {"the register count", 24, 256, 8});
                 b.op.flags |= kAligned;
                 b.op.run = &nothing;
               }});
}

}  // namespace ktl
