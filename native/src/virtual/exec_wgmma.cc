// wgmma.fence, mma_async, commit_group and wait_group (PTX ISA 9.7.15): one first-in-first-out queue per warpgroup. The
// k-th instruction of a warpgroup exists once all four warps have issued it. It takes effect late, at once or anywhere
// in between, as the launch's order says, and reads shared memory then.
#include "exec_wgmma.h"
#include <algorithm>
#include <optional>
#include "exec_async.h"

namespace ktl {
namespace {

constexpr uint32_t kAllWarps = (1u << kWgmmaWarps) - 1;
constexpr uint32_t kWarpgroups = 8;  // of a CTA, at most
constexpr size_t kMostInFlight = 1024;  // groups, instructions and copies that nobody waits for

// --- the instruction's form, packed into Op::aux and imm

struct TypeCode {
  const char* name;
  OperandType type;
};
constexpr TypeCode kTypes[] = {
    {"f16", {.format = FloatFormat::F16}},   {"bf16", {.format = FloatFormat::BF16}},
    {"tf32", {.format = FloatFormat::TF32}}, {"e4m3", {.format = FloatFormat::E4M3}},
    {"e5m2", {.format = FloatFormat::E5M2}}, {"s8", {.isInteger = true, .isSigned = true}},
    {"u8", {.isInteger = true}},             {"b1", {.isInteger = true}},
};
constexpr uint32_t kB1 = 7;
enum FormBit : uint32_t {
  kRegisterA = 1 << 10,
  kNegateA = 1 << 11,
  kNegateB = 1 << 12,
  kMnMajorA = 1 << 13,
  kMnMajorB = 1 << 14,
  kSaturate = 1 << 15,
  kSparse = 1 << 25,    // above n
  kSelector = 1 << 26,
};

WgmmaForm formOf(const Op& op) {
  const uint32_t bits = op.aux;
  WgmmaForm form;
  form.a = kTypes[bits & 15].type;
  form.b = kTypes[bits >> 4 & 15].type;
  form.d = static_cast<Accumulator>(bits >> 8 & 3);
  form.n = bits >> 16 & 0x1ff;
  form.aInRegisters = bits & kRegisterA;
  form.negateA = bits & kNegateA;
  form.negateB = bits & kNegateB;
  form.aMnMajor = bits & kMnMajorA;
  form.bMnMajor = bits & kMnMajorB;
  form.saturate = bits & kSaturate;
  form.binary = (bits & 15) == kB1;
  // The PTX ISA wants no order of the indices here.
  if (bits & kSparse) form.sparse = {form.a.bytes() == 4 ? 2u : 4u, Sparsity::Order::Any};
  form.selector = bits & kSelector ? 1 : 0;
  return form;
}

uint32_t typeCode(std::string_view name) {
  uint32_t code = 0;
  while (kTypes[code].name != name) ++code;
  return code;
}

// --- state

WgmmaWarp& stateOf(Warp& w) {
  if (!w.wgmma) {
    w.wgmma = std::make_shared<WgmmaWarp>();
    w.wgmma->accumulators.resize(w.code->slots);
    w.wgmma->fragments.resize(w.code->slots);
  }
  return *w.wgmma;
}

Warpgroup& groupOf(const Warp& w) {
  auto& groups = w.cta->warpgroups;
  if (groups.empty()) groups.resize((w.cta->warps.size() + kWgmmaWarps - 1) / kWgmmaWarps);
  auto& group = groups[w.index / kWgmmaWarps];
  if (!group) group = std::make_shared<Warpgroup>();
  return *group;
}

const uint32_t* slotsOf(const Warp& w, const Op& op) { return w.code->lists.data() + op.list; }

void requireWarpgroup(const Warp& w, uint32_t mask, const char* instruction) {
  if (mask != ~0u)
    throw Fault{Code::Divergence, std::string(instruction) + " needs all 32 lanes of the warp"};
  const size_t first = w.index / kWgmmaWarps * kWgmmaWarps;
  if (first + kWgmmaWarps > w.cta->warps.size())
    throw Fault{Code::Divergence, std::string(instruction) + " needs a warpgroup of four warps, but warps " +
                                      std::to_string(first) + " to " +
                                      std::to_string(w.cta->warps.size() - 1) + " are all that the CTA has"};
}

// --- execution

// Whether `next` may be multiplied together with the chain that `first` began.
bool joins(const Warp& w, const WgmmaEntry& first, const WgmmaEntry& last, const WgmmaEntry& next) {
  const WgmmaForm form = formOf(*first.op);
  const uint32_t* d = slotsOf(w, *first.op);
  return next.arrived == kAllWarps && next.group == first.group && last.moves.empty() && next.operands.accumulate &&
         next.op->aux == first.op->aux && form.d != Accumulator::F16 &&
         (next.op == first.op || std::equal(d, d + form.registersOfD(), slotsOf(w, *next.op)));
}

// Executes the instructions of all groups up to `group` that every warp has issued.
void execute(Cta& cta, uint32_t index, uint32_t group) {
  Warpgroup& warpgroup = *cta.warpgroups[index];
  auto& entries = warpgroup.entries;
  const Warp& first = *cta.warps[index * kWgmmaWarps];
  WgmmaRegisters registers;
  for (uint32_t i = 0; i < kWgmmaWarps; ++i) {
    Warp& warp = *cta.warps[index * kWgmmaWarps + i];
    registers.registers[i] = warp.regs;
    registers.taint[i] = &warp.taint;
  }
  const bool silicon = cta.cluster->launch.config->tensorCores == LaunchConfig::TensorCores::Silicon;
  while (entries.front() && entries.front()->group <= group && entries.front()->arrived == kAllWarps) {
    std::array<WgmmaOp, kWgmmaBatchSteps> ops;
    uint32_t count = 0;
    do {
      ops[count] = entries.at(count)->operands;
      ++count;
    } while (count < kWgmmaBatchSteps && count < entries.size() &&
             joins(first, *entries.front(), *entries.at(count - 1), *entries.at(count)));
    const WgmmaForm form = formOf(*entries.front()->op);
    registers.slots = slotsOf(first, *entries.front()->op);
    executeWgmma(form, {ops.data(), count}, cta.shared, registers, silicon ? UmmaMode::Silicon : UmmaMode::Fast);
    cta.cluster->tensorMacs += count * form.macs();
    for (const WgmmaEntry::Move& move : entries.at(count - 1)->moves) {
      Warp& warp = *cta.warps[index * kWgmmaWarps + move.warp];
      const uint32_t* from = warp.at<uint32_t>(move.src);
      uint32_t* to = warp.at<uint32_t>(move.dst);
      for (uint32_t lane = 0; lane < 32; ++lane)
        if (move.mask >> lane & 1) to[lane] = from[lane];
      warp.setTaint(move.dst, move.mask, warp.taint[move.src]);
    }
    for (uint32_t i = 0; i < count; ++i) entries.pop();
    warpgroup.executed += count;
  }
}

// --- handlers

Flow fence(Warp& w, const Op&, uint32_t mask) {
  requireWarpgroup(w, mask, "wgmma.fence");
  WgmmaWarp& state = stateOf(w);
  state.fenced = true;
  state.touched.clear();
  return Flow::Next;
}

Flow commit(Warp& w, const Op&, uint32_t mask) {
  requireWarpgroup(w, mask, "wgmma.commit_group");
  ++stateOf(w).committed;
  return Flow::Next;
}

// Makes the effects of groups before `covered` happen, and older ones until no more than `most` are left.
void forceEffects(Warp& w, Warpgroup& group, uint32_t covered, size_t most) {
  for (;;) {
    const WgmmaEffect* oldest = group.effects.front();
    if (!oldest || (oldest->group >= covered && group.effects.size() <= most)) return;
    const std::optional<WgmmaEffect> effect = group.effects.pop();
    w.cta->cluster->async.force(effect->id);
  }
}

// imm: groups that may stay in flight
Flow wait(Warp& w, const Op& op, uint32_t mask) {
  requireWarpgroup(w, mask, "wgmma.wait_group");
  WgmmaWarp& state = stateOf(w);
  const uint32_t covered = state.committed - std::min<uint32_t>(state.committed, static_cast<uint32_t>(op.imm));
  if (covered <= state.waited) return Flow::Next;
  Warpgroup& group = groupOf(w);
  for (size_t i = 0; i < group.entries.size() && group.executed + i < state.issued; ++i)
    if (const WgmmaEntry& entry = *group.entries.at(i); entry.group < covered && entry.arrived != kAllWarps)
      return Flow::Block;
  forceEffects(w, group, covered, 0);
  state.waited = covered;
  if (const auto done = group.done.find(covered - 1); done != group.done.end()) w.waitUntil(done->second);
  return Flow::Next;
}

// The operand must be the same in all lanes.
uint64_t uniformDescriptor(Warp& w, const Op& op, unsigned k, const char* operand) {
  const uint64_t* lanes = w.at<uint64_t>(op.src[k]);
  if (w.taint[op.src[k]] && w.cta->cluster->launch.checks)
    w.cta->cluster->warn(w, Code::Uninitialised, -1,
                         std::string("the descriptor of ") + operand + " comes from uninitialised data");
  if (!std::all_of(lanes, lanes + 32, [&](uint64_t x) { return x == lanes[0]; }))
    throw Fault{Code::Descriptor, std::string("the lanes of the warp pass different descriptors of ") + operand};
  return lanes[0];
}

void watchRegisters(Warp& w, const Op& op, const WgmmaForm& form, WgmmaWarp& state) {
  const uint32_t* slots = slotsOf(w, op);
  const uint32_t own = form.registersOfD(), all = own + form.registersOfA();
  if (w.cta->cluster->launch.checks) {
    if (!state.fenced)
      w.cta->cluster->warn(w, Code::Race, -1,
                           "wgmma.mma_async without a wgmma.fence before it: the first one of a warp needs it");
    else if (!state.touched.empty() &&
             std::any_of(slots, slots + all, [&](uint32_t slot) {
               return std::binary_search(state.touched.begin(), state.touched.end(), slot);
             }))
      w.cta->cluster->warn(w, Code::Race, -1,
                           "wgmma.mma_async uses registers that other instructions used since the last wgmma.fence: "
                           "put wgmma.fence.sync.aligned between");
  }
  for (uint32_t i = 0; i < own; ++i) state.accumulators[slots[i]] = state.committed + 1;
  for (uint32_t i = own; i < all; ++i) state.fragments[slots[i]] = state.committed + 1;
}

// src: A and B descriptors, scale-d; imm: scale-d negated. list: registers of D, then of A, then of its metadata.
Flow multiply(Warp& w, const Op& op, uint32_t mask) {
  requireWarpgroup(w, mask, "wgmma.mma_async");
  Cta& cta = *w.cta;
  Cluster& cluster = *cta.cluster;
  const WgmmaForm form = formOf(op);
  WgmmaWarp& state = stateOf(w);
  Warpgroup& group = groupOf(w);
  const uint32_t member = w.index % kWgmmaWarps;

  WgmmaOp operands;
  if (!form.aInRegisters) operands.a = uniformDescriptor(w, op, 0, "A");
  operands.b = uniformDescriptor(w, op, 1, "B");
  const uint32_t scale = w.pred(op.src[2]) ^ (op.imm ? ~0u : 0u);
  if (scale != 0 && scale != ~0u) throw Fault{Code::Divergence, "the lanes of the warp differ in scale-d"};
  operands.accumulate = scale != 0;

  const uint64_t place = state.issued - group.executed;
  if (place == group.entries.size()) {
    if (place >= kMostInFlight) return Flow::Block;  // until the other warps have come nearer
    checkWgmma(form, operands, cta.shared);
    WgmmaEntry entry;
    entry.op = &op;
    entry.pc = w.pc;
    entry.group = state.committed;
    entry.operands = operands;
    if (form.registersOfA() > 0) {
      entry.fragments = std::make_unique<WgmmaFragments>();
      entry.operands.fragments = entry.fragments.get();
    }
    if (const Ordering* order = cluster.ordering.get())
      entry.chunks = order->written(cta, wgmmaChunks(form, operands));
    group.entries.push(std::move(entry));
  }
  WgmmaEntry& entry = *group.entries.at(place);
  const auto differs = [&](const std::string& how) {
    throw Fault{Code::Divergence, "the warps of a warpgroup execute different wgmma.mma_async: " + how};
  };
  if (entry.pc != w.pc)
    differs("another warp is at ptx line " + std::to_string(w.code->source[entry.pc]->line) + " for its " +
            std::to_string(state.issued + 1) + ". one");
  if (entry.operands.a != operands.a || entry.operands.b != operands.b)
    differs("another warp passed descriptors " + hex(entry.operands.a) + " and " + hex(entry.operands.b) +
            ", this one " + hex(operands.a) + " and " + hex(operands.b));
  if (entry.operands.accumulate != operands.accumulate) differs("scale-d is not the same");
  if (entry.group != state.committed) differs("they have not committed the same number of groups");

  watchRegisters(w, op, form, state);
  const uint32_t *slots = slotsOf(w, op) + form.registersOfD(), count = form.registersOfA();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t r = form.sparse && i + 1 == count ? kWgmmaFragments : i;
    std::copy_n(w.at<uint32_t>(slots[i]), 32, entry.fragments->values[member][r]);
    entry.fragments->taint[member][r] = w.taint[slots[i]];
  }
  if (Ordering* order = cluster.ordering.get())
    for (const uint32_t chunk : entry.chunks)
      order->readAsync(w, 0, cta, chunk, 16, "an operand of wgmma.mma_async");

  ++state.issued;
  entry.arrived |= 1u << member;
  entry.from = std::max(entry.from, w.now());
  if (entry.arrived != kAllWarps) return Flow::Next;

  ++cluster.epoch;
  const uint64_t cycles = timing::wgmmaCycles(form.n, form.aInRegisters);
  const uint64_t multiplied = cta.tensorCore.reserve(entry.from, cycles);
  draw(w, AsyncKind::Warpgroup, "wgmma.mma_async", multiplied - cycles, multiplied);
  const uint64_t done = multiplied + timing::kWgmmaLatency[form.aInRegisters];
  const uint32_t number = entry.group, index = w.index / kWgmmaWarps;
  group.done[number] = std::max(group.done[number], done);
  while (group.done.size() > 16) group.done.erase(group.done.begin());
  if (group.queued == number) return Flow::Next;  // joins the effect that is queued
  group.queued = number;
  const auto run = [&cta, &group, index, number] {
    if (group.queued == number) group.queued.reset();
    execute(cta, index, number);
  };
  group.effects.push(
      {number, issue(w, AsyncKind::Warpgroup, cta.rank * kWarpgroups + index, "wgmma.mma_async", done, run)});
  forceEffects(w, group, 0, kMostInFlight);
  return Flow::Next;
}

void requireTarget(const Builder& b) {
  if (b.target().rfind("sm_90", 0) != 0) b.refuse("wgmma is an instruction of sm_90a");
}

// The types of A and B, by their codes, in words where they do not go together.
void requirePair(const Builder& b, uint32_t a, uint32_t other) {
  const OperandType &aType = kTypes[a].type, &bType = kTypes[other].type;
  const bool wide = aType.bytes() > 1, sameKind = aType.isInteger == bType.isInteger;
  const bool bitsAlone = !aType.isInteger || (a == kB1) == (other == kB1);
  if (!sameKind || !bitsAlone || (wide ? a != other : bType.bytes() != 1))
    b.refuse("the types of A and B do not go together");
}

// aux of the instruction: types, shape, saturation, from its modifiers. PTX ISA 9.7.15.2.
uint32_t formBits(const Builder& b) {
  const auto at = std::find_if(b.ins.modifiers.begin(), b.ins.modifiers.end(),
                               [](const std::string& m) { return m.rfind("m64n", 0) == 0; });
  const std::string& shape = *at;
  const size_t k = shape.find('k');
  if (k == std::string::npos) b.refuse("the shape has no k");
  const auto n = static_cast<uint32_t>(std::strtoul(shape.c_str() + 4, nullptr, 10));
  const auto depth = static_cast<uint32_t>(std::strtoul(shape.c_str() + k + 1, nullptr, 10));
  // The types follow the shape, or .satfinite behind it; ptxas takes that behind them, too.
  std::vector<std::string> types(at + 1, b.ins.modifiers.end());
  std::erase(types, "satfinite");
  if (types.size() < 3) b.refuse("the types come behind the shape");
  const std::string &d = types[0], &aName = types[1];
  const uint32_t a = typeCode(aName), other = typeCode(types[2]);
  requirePair(b, a, other);
  const bool isInteger = kTypes[a].type.isInteger;
  if (isInteger != (d == "s32")) b.refuse("D does not fit the operands");
  if (d == "f16" && (aName == "bf16" || aName == "tf32")) b.refuse("D of " + aName + " is f32");
  const uint32_t expected = a == kB1 ? 256 : (b.has("sp") ? 64 : 32) / kTypes[a].type.bytes();
  if (depth != expected) b.refuse("k must be " + std::to_string(expected));
  if (n < 8 || n > 256 || n % 8 != 0 || (isInteger && n > 24 && n % 16 != 0)) b.refuse("there is no such n");
  const Accumulator sums = d == "s32" ? Accumulator::S32 : d == "f16" ? Accumulator::F16 : Accumulator::F32;
  const uint32_t saturate = b.has("satfinite") ? uint32_t{kSaturate} : 0u;
  return a | other << 4 | static_cast<uint32_t>(sums) << 8 | n << 16 | saturate | (b.has("sp") ? uint32_t{kSparse} : 0u);
}

// Where scale-d is among the operands: behind the metadata and their selector.
size_t scaleD(const Builder& b) { return b.has("sp") ? 5 : 3; }

// scale-a and scale-b, then which operands are transposed; integers have neither.
void flagOperands(Builder& b, bool inRegisters) {
  const OperandType& type = kTypes[b.op.aux & 15].type;
  const auto scale = [&](size_t i, uint32_t bit) {
    if (b.immediate(i, {"scale-a or scale-b", -1, 1, 2}) < 0) b.op.aux |= bit;
  };
  const auto transpose = [&](size_t i, uint32_t bit) {
    if (b.immediate(i, {"a transpose", 0, 1})) b.op.aux |= bit;
  };
  size_t operands = scaleD(b) + 1;
  if (!type.isInteger) {
    scale(operands++, kNegateA);
    scale(operands++, kNegateB);
    if (type.bytes() == 2) {
      if (!inRegisters) transpose(operands++, kMnMajorA);
      transpose(operands++, kMnMajorB);
    }
  }
  if (b.operands() != operands) b.refuse("wrong number of operands");
}

void multiplyBuild(Builder& b) {
  requireTarget(b);
  const bool inRegisters = b.operand(1).kind == ptx::Operand::Kind::Vector;
  b.op.aux = formBits(b);
  if (inRegisters) b.op.aux |= kRegisterA;
  flagOperands(b, inRegisters);

  std::vector<uint32_t> slots = b.registers(0, true);
  if (slots.size() != formOf(b.op).registersOfD()) b.refuse("wrong number of registers of D");
  if (inRegisters) {
    const std::vector<uint32_t> fragments = b.registers(1, false);
    if (fragments.size() != kWgmmaFragments) b.refuse("A is four registers");
    slots.insert(slots.end(), fragments.begin(), fragments.end());
  } else {
    b.op.src[0] = b.source(1, 8);
  }
  b.op.src[1] = b.source(2, 8);
  if (b.has("sp")) {
    slots.push_back(b.source(3, 4));
    const bool pair = kTypes[b.op.aux & 15].type.bytes() > 1;
    if (b.immediate(4, {"the sparsity selector", 0, pair ? 1 : 0})) b.op.aux |= kSelector;
  }
  uint32_t negate = 0;
  b.op.src[2] = b.predicate(scaleD(b), &negate);
  b.op.imm = negate != 0;
  b.op.list = b.list(slots);
  b.op.listCount = static_cast<uint32_t>(slots.size());
  b.op.flags |= kAligned | kWarpgroup;
  b.op.run = &multiply;
}

}  // namespace

bool useFragments(Warp& w, const Op& op, uint32_t mask) {
  if (!w.wgmma) return false;
  WgmmaWarp& state = *w.wgmma;
  const auto inFlight = [&](const std::vector<uint32_t>& by, uint32_t slot) { return by[slot] > state.waited; };
  if (op.flags & kMove && inFlight(state.accumulators, op.src[0])) {
    Warpgroup& group = groupOf(w);
    state.accumulators[op.dst] = state.accumulators[op.src[0]];
    if (state.issued <= group.executed) return false;
    WgmmaEntry* entry = group.entries.at(state.issued - 1 - group.executed);
    if (entry && entry->moves.size() < kMostInFlight) {
      entry->moves.push_back({w.index % kWgmmaWarps, op.dst, op.src[0], mask});
      return true;
    }
  }
  const bool checked = w.cta->cluster->launch.checks;
  const auto warn = [&](const char* what) {
    w.cta->cluster->warn(w, Code::Race, -1,
                         std::string("this instruction ") + what +
                             " of a wgmma.mma_async that was not waited for: put "
                             "wgmma.wait_group.sync.aligned before it");
  };
  const auto touch = [&](uint32_t slot) {
    if (slot >= state.accumulators.size()) return;
    if (checked && inFlight(state.accumulators, slot)) warn("uses an accumulator register");
    // Compilers copy registers, and take them apart, behind the fence: names, of which no instruction may be left.
    if (op.flags & (kMove | kRepack)) return;
    const auto at = std::lower_bound(state.touched.begin(), state.touched.end(), slot);
    if (at == state.touched.end() || *at != slot) state.touched.insert(at, slot);
  };
  touch(op.dst);
  for (const uint32_t slot : op.src) touch(slot);
  if (op.branch != Op::Branch::Table)
    for (uint32_t i = 0; i < op.listCount; ++i) touch(w.code->lists[op.list + i]);
  if (checked && !(op.flags & kMove) && inFlight(state.fragments, op.dst)) warn("overwrites a register of A");
  return false;
}

std::string describeWarpgroup(const Warp& w) {
  std::string text = "wgmma.mma_async executed by the warps of its warpgroup:";
  const uint32_t first = w.index / kWgmmaWarps * kWgmmaWarps;
  for (uint32_t i = first; i < first + kWgmmaWarps && i < w.cta->warps.size(); ++i) {
    const Warp& warp = *w.cta->warps[i];
    text += " " + std::to_string(warp.wgmma ? warp.wgmma->issued : 0);
  }
  return text;
}

void checkWarpgroups(Cluster& cluster) {
  for (const auto& cta : cluster.ctas)
    for (uint32_t index = 0; index < cta->warpgroups.size(); ++index) {
      if (!cta->warpgroups[index]) continue;
      for (const WgmmaEntry& entry : cta->warpgroups[index]->entries) {
        if (entry.arrived == kAllWarps) continue;
        const Warp& issuer = *cta->warps[index * kWgmmaWarps + static_cast<uint32_t>(std::countr_zero(entry.arrived))];
        Finding finding = cluster.describe(&issuer, entry.pc, Code::Divergence,
                                           std::to_string(std::popcount(entry.arrived)) +
                                               " of the four warps of a warpgroup executed this wgmma.mma_async");
        finding.fatal = false;
        cluster.add(std::move(finding));
      }
    }
}

void addWarpgroupRows(Table& t) {
  const auto row = [&](const char* pattern, Handler run) {
    t.push_back({"wgmma", pattern, [run](Builder& b) {
                   requireTarget(b);
                   if (run == &wait) b.op.imm = b.immediate(0, kGroupRange);
                   b.op.flags |= kAligned | kWarpgroup;
                   b.op.run = run;
                   b.op.wait = Wait::Warpgroup;
                 }});
  };
  row("fence sync aligned", &fence);
  row("commit_group sync aligned", &commit);
  row("wait_group sync aligned", &wait);
  const std::string start = "mma_async sync aligned m64n* ";
  const std::string types = "f16|bf16|tf32|e4m3|e5m2 ";
  t.push_back({"wgmma", start + "f32|f16 " + types + types, multiplyBuild, kUntruncated});
  t.push_back({"wgmma", start + "s32 s8|u8 s8|u8 satfinite?", multiplyBuild});
  t.push_back({"wgmma", start + "s32 b1 b1 and popc", multiplyBuild});
  // PTX ISA 9.7.15.6
  t.push_back({"wgmma", "sp " + start + "f32|f16 " + types + types, multiplyBuild, kUntruncated});
  t.push_back({"wgmma", "sp " + start + "s32 s8|u8 s8|u8 satfinite?", multiplyBuild});
}

}  // namespace ktl
