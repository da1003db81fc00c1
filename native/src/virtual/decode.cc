// PTX instructions to micro-operations: slots for operands, resizes for width mismatches, calls as static
// frames.
#include "decode.h"
#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include "decode_table.h"
#include "exec_resize.h"
#include "exec_tmem.h"
#include "exec_wgmma.h"
#include "traffic.h"
#include "warp.h"

namespace ktl {

using ptx::Operand;
using Kind = ptx::Operand::Kind;

unsigned typeBytes(std::string_view type) {
  static const std::unordered_map<std::string_view, unsigned> table = {
      {"b8", 1},     {"u8", 1},     {"s8", 1},     {"b16", 2},    {"u16", 2},     {"s16", 2},
      {"f16", 2},    {"bf16", 2},   {"b32", 4},    {"u32", 4},    {"s32", 4},     {"f32", 4},
      {"tf32", 4},   {"b64", 8},    {"u64", 8},    {"s64", 8},    {"f64", 8},     {"f16x2", 4},
      {"bf16x2", 4}, {"b128", 16},  {"pred", 1},   {"f32x2", 8},  {"tf32x2", 8},  {"e4m3x2", 2},
      {"e5m2x2", 2}, {"e2m1x2", 1}, {"e2m3x2", 2}, {"e3m2x2", 2}, {"ue8m0x2", 2}, {"u16x2", 4},
      {"s16x2", 4},  {"e4m3", 1},   {"e5m2", 1},   {"s4", 1},      {"u4", 1}};
  const auto found = table.find(type);
  return found == table.end() ? 0 : found->second;
}

namespace {

unsigned registerBytes(ptx::Type type) {
  switch (type) {
    case ptx::Type::Pred: return 1;
    case ptx::Type::B8:
    case ptx::Type::U8:
    case ptx::Type::S8:  // an 8-bit register occupies 16 bits
    case ptx::Type::B16:
    case ptx::Type::U16:
    case ptx::Type::S16:
    case ptx::Type::F16:
    case ptx::Type::BF16: return 2;
    case ptx::Type::B64:
    case ptx::Type::U64:
    case ptx::Type::S64:
    case ptx::Type::F64: return 8;
    case ptx::Type::B128: return 16;
    default: return 4;
  }
}

std::string at(const ptx::Instruction& ins) { return "line " + std::to_string(ins.line) + ": "; }

}  // namespace

class Decoder {
 public:
  Decoder(const Program& program, EntryCode& code) : program_(program), code_(code) {
    code_.slots = 0;
    truth_ = constant(1, 1);
  }

  // Decodes callees, then the function; returns its first pc.
  uint32_t function(int32_t index) {
    Frame& frame = frames_[index];
    if (frame.state == Frame::Done) return frame.start;
    const ptx::Function& f = program_.module->functions[index];
    frame.state = Frame::Open;
    frame.local = align16(code_.localBytes);
    frame.param = align16(frame.local + f.localBytes);
    frame.call = align16(frame.param + f.paramBytes);
    code_.localBytes = align16(frame.call + f.callBytes);
    if (code_.localBytes > kMaxFrameBytes)
      throw Fault{Code::UnknownInstruction, "line " + std::to_string(f.line) + ": " + code_.entry->name + " needs more than " +
                                                std::to_string(kMaxFrameBytes) +
                                                " bytes of local memory with the functions it calls, the first too many in " + f.name};
    if (++depth_ > kMaxCallDepth)
      throw Fault{Code::UnsupportedCall, "line " + std::to_string(f.line) + ": calls are nested more than " +
                                             std::to_string(kMaxCallDepth) + " deep at " + f.name};
    for (const auto& ins : f.instructions)
      if (ins.opcode == "call") visitCallee(ins);
    --depth_;
    const int32_t outer = current_;
    current_ = index;
    frame.start = static_cast<uint32_t>(code_.ops.size());
    body(f);
    current_ = outer;
    frame.state = Frame::Done;
    return frame.start;
  }

  const Program& program() const { return program_; }
  EntryCode& code() { return code_; }
  const ptx::Function& current() const { return program_.module->functions[current_]; }
  uint32_t truth() const { return truth_; }
  // What every warp starts with.
  void fillImage() {
    code_.image.assign(uint64_t{code_.slots} * kSlotBytes, 0);
    code_.taint.reset(code_.slots);
    for (const auto& [key, slot] : constants_) {
      const auto [bits, bytes] = key;
      code_.taint.set(slot, ~0u, 0);
      uint8_t* at = code_.image.data() + uint64_t{slot} * kSlotBytes;
      if (bytes == 1) std::memset(at, bits & 1 ? 0xff : 0, sizeof(uint32_t));
      for (uint32_t lane = 0; bytes > 1 && lane < 32; ++lane) std::memcpy(at + lane * bytes, &bits, std::min(bytes, 8u));
    }
    for (const InitialSlot& initial : code_.initial) code_.taint.set(initial.slot, ~0u, 0);
  }

  uint32_t allocate(unsigned bytes) {
    const uint32_t slot = code_.slots;
    code_.slots += slotsOf(bytes);
    if constexpr (kGuarded) code_.guards.push_back(code_.slots++);
    return slot;
  }
  uint32_t registerSlot(int32_t reg) {
    const auto key = std::make_pair(current_, reg);
    const auto found = registers_.find(key);
    if (found != registers_.end()) return found->second;
    return registers_[key] = allocate(registerBytes(current().registers[reg].type));
  }
  uint32_t constant(uint64_t bits, unsigned bytes) {
    const auto key = std::make_pair(bits, bytes);
    const auto found = constants_.find(key);
    if (found != constants_.end()) return found->second;
    return constants_[key] = allocate(bytes);
  }
  uint32_t special(const std::string& name, unsigned bytes) {
    const auto key = std::make_pair(name, bytes);
    const auto found = specials_.find(key);
    if (found != specials_.end()) return found->second;
    const uint32_t slot = allocate(bytes);
    code_.initial.push_back({InitialSlot::Kind::Special, static_cast<uint8_t>(bytes), slot, 0, specialRegister(name)});
    return specials_[key] = slot;
  }
  uint32_t sharedAddress(uint64_t address, unsigned bytes) {
    const uint32_t slot = allocate(bytes);
    code_.initial.push_back(
        {InitialSlot::Kind::SharedAddress, static_cast<uint8_t>(bytes), slot, address, {}});
    return slot;
  }
  // Byte offset of a .param or .local variable in the lane's local block.
  uint32_t frameOffset(const ptx::Variable& v, int32_t index) const {
    const Frame& frame = frames_.at(v.function);
    if (v.space == ptx::Space::Local) return frame.local + v.offset;
    const ptx::Function& f = program_.module->functions[v.function];
    const bool formal = std::count(f.params.begin(), f.params.end(), index) ||
                        std::count(f.returns.begin(), f.returns.end(), index);
    return (formal ? frame.param : frame.call) + v.offset;
  }
  bool isEntryParam(const ptx::Variable& v, int32_t index) const {
    if (v.space != ptx::Space::Param || v.function < 0) return false;
    const ptx::Function& f = program_.module->functions[v.function];
    return f.isEntry && std::count(f.params.begin(), f.params.end(), index);
  }
  uint32_t dynamicShared() const { return code_.entry->dynamicSharedOffset; }
  uint32_t calleeStart(int32_t index) const { return frames_.at(index).start; }
  // It is being decoded: a call of it comes from itself, or from what it calls.
  bool recurses(int32_t index) const {
    const auto found = frames_.find(index);
    return found != frames_.end() && found->second.state == Frame::Open;
  }

 private:
  struct Frame {
    enum State { New, Open, Done } state = New;
    uint32_t start = 0, local = 0, param = 0, call = 0;
  };

  static uint32_t align16(uint64_t bytes) { return static_cast<uint32_t>((bytes + 15) / 16 * 16); }

  void visitCallee(const ptx::Instruction& ins) {
    const Operand& target = ins.operands.at(1);
    if (target.kind != Kind::Function || target.symbol < 0) return;  // refused where it is executed
    const ptx::Function& callee = program_.module->functions[target.symbol];
    if (!callee.hasBody || recurses(target.symbol)) return;
    function(target.symbol);
    code_.callDepth = std::max<uint32_t>(code_.callDepth, static_cast<uint32_t>(frames_.size()) + 1);
  }

  void body(const ptx::Function& f) {
    std::vector<uint32_t> pcOf(f.instructions.size() + 1);
    const uint32_t first = static_cast<uint32_t>(code_.ops.size());
    for (size_t i = 0; i < f.instructions.size(); ++i) {
      pcOf[i] = static_cast<uint32_t>(code_.ops.size());
      instruction(f.instructions[i]);
    }
    pcOf.back() = static_cast<uint32_t>(code_.ops.size());
    static const ptx::Instruction fallThrough = [] {
      ptx::Instruction ins;
      ins.opcode = "ret";
      ins.text = "ret;";
      return ins;
    }();
    instruction(fallThrough);
    for (uint32_t pc = first; pc < code_.ops.size(); ++pc) {
      Op& op = code_.ops[pc];
      if (op.branch == Op::Branch::Label) op.imm = pcOf.at(op.imm);
      if (op.branch == Op::Branch::Table)
        for (uint32_t k = 0; k < op.listCount; ++k)
          code_.lists[op.list + k] = pcOf.at(code_.lists[op.list + k]);
    }
  }

  void instruction(const ptx::Instruction& ins) {
    std::vector<std::string_view> picks;
    const Row* row = match(ins, picks);
    Builder builder{*this, ins, std::move(picks), {}, {}, {}};
    builder.op.guard = ins.guard >= 0 ? registerSlot(ins.guard) : truth_;
    builder.op.guardXor = ins.guardNegated ? ~0u : 0u;
    if (!row) {
      // Only what executes it cannot run.
      builder.op.run = [](Warp& w, const Op&, uint32_t) -> Flow {
        throw Fault{Code::UnknownInstruction, "unknown instruction: " + w.code->source[w.pc]->text};
      };
      return emit(builder.op, builder.op, ins, UINT32_MAX);
    }
    try {
      row->build(builder);
    } catch (const std::out_of_range&) {
      builder.refuse("operands of another form are expected");
    }
    std::string form = ins.opcode;
    for (const auto& modifier : ins.modifiers) form += "." + modifier;
    if (row->approximate) code_.approximated.emplace(form, row->approximate);
    const auto [found, isNew] = forms_.emplace(form, static_cast<uint32_t>(code_.forms.size()));
    if (isNew) code_.forms.push_back(form);
    for (Op& op : builder.before_) emit(op, builder.op, ins, UINT32_MAX);
    emit(builder.op, builder.op, ins, found->second);
    for (Op& op : builder.after_) emit(op, builder.op, ins, UINT32_MAX);
  }

  // Compilers move loads up to these, and what waits for loads down to them.
  static bool isOrdered(std::string_view opcode) {
    static const std::set<std::string_view> ordered = {
        "st", "red", "atom", "bar", "barrier", "mbarrier", "fence", "membar", "bra", "brx", "call", "ret", "exit", "cp",
        "stmatrix", "mma", "wmma", "wgmma", "tcgen05"};
    return ordered.contains(opcode);
  }

  void emit(Op op, const Op& main, const ptx::Instruction& ins, uint32_t form) {
    op.guard = main.guard;
    op.guardXor = main.guardXor;
    code_.ops.push_back(op);
    if (isOrdered(ins.opcode)) code_.ops.back().flags |= kOrdered;
    code_.source.push_back(&ins);
    code_.formOf.push_back(form);
  }

  // A thread's own memory, as on the hardware with what calls need; four times that of its .local variables.
  static constexpr uint32_t kMaxFrameBytes = 4 * ptx::kMaxLocalBytes;
  static constexpr uint32_t kMaxCallDepth = 256;

  const Program& program_;
  EntryCode& code_;
  uint32_t depth_ = 0;
  uint32_t truth_ = 0;
  int32_t current_ = -1;
  std::map<int32_t, Frame> frames_;
  std::map<std::pair<int32_t, int32_t>, uint32_t> registers_;
  std::map<std::pair<uint64_t, unsigned>, uint32_t> constants_;
  std::map<std::pair<std::string, unsigned>, uint32_t> specials_;
  std::unordered_map<std::string, uint32_t> forms_;
};

// --- Builder
// -------------------------------------------------------------------------------------------------

const Operand& Builder::operand(size_t i) const {
  if (i >= ins.operands.size()) refuse("operand " + std::to_string(i + 1) + " is missing");
  return ins.operands[i];
}

void Builder::refuse(const std::string& why) const {
  throw Fault{Code::UnknownInstruction, at(ins) + why + ": " + ins.text};
}

namespace {

bool permits(const Range& range, int64_t value) {
  return value >= range.low && value <= range.high && (value - range.low) % range.step == 0 &&
         !(range.powerOfTwo && !std::has_single_bit(static_cast<uint64_t>(value)));
}

std::string describe(const Range& range) {
  std::string text = std::to_string(range.low);
  if (range.low == range.high) return text;
  text += (range.step == 2 ? " or " : " to ") + std::to_string(range.high);
  if (range.powerOfTwo) return "a power of two from " + text;
  return range.step > 2 ? text + " in steps of " + std::to_string(range.step) : text;
}

}  // namespace

void Builder::bound(size_t i, const Range& range) const {
  const Operand& given = operand(i);
  if (given.kind != Kind::Immediate) return;
  const auto value = static_cast<int64_t>(given.bits);
  if (given.isFloat || !permits(range, value))
    refuse(std::string(range.what) + " is " + (given.isFloat ? "no integer" : std::to_string(value)) + ", expected " +
           describe(range));
}

int64_t Builder::immediate(size_t i, const Range& range) const {
  if (operand(i).kind != Kind::Immediate)
    refuse(std::string(range.what) + " must be a constant, " + describe(range));
  bound(i, range);
  return static_cast<int64_t>(operand(i).bits);
}

std::vector<const Operand*> Builder::vector(const Operand& operand) const {
  std::vector<const Operand*> parts;
  if (operand.kind == Kind::Vector)
    for (const Operand& part : operand.elements) parts.push_back(&part);
  else
    parts.push_back(&operand);
  const size_t count = has("v2") ? 2 : has("v4") ? 4 : has("v8") ? 8 : 1;
  if (parts.size() != count) refuse("the vector has " + std::to_string(parts.size()) + " elements");
  return parts;
}

std::string_view Builder::type() const {
  for (auto modifier = ins.modifiers.rbegin(); modifier != ins.modifiers.rend(); ++modifier)
    if (typeBytes(*modifier) != 0) return *modifier;
  refuse("no type");
}

bool Builder::has(std::string_view modifier) const {
  return std::find(ins.modifiers.begin(), ins.modifiers.end(), modifier) != ins.modifiers.end();
}

unsigned Builder::width(const Operand& operand) const {
  if (operand.kind != Kind::Register) return 0;
  return registerBytes(decoder.current().registers[operand.reg].type);
}

uint32_t Builder::constant(uint64_t bits, unsigned bytes) { return decoder.constant(bits, bytes); }
uint32_t Builder::scratch(unsigned bytes) { return decoder.allocate(bytes); }
const ptx::Module& Builder::module() const { return *decoder.program().module; }
const ptx::Variable& Builder::variable(int32_t symbol) const { return module().variables.at(symbol); }
bool Builder::isEntryParam(int32_t symbol) const { return decoder.isEntryParam(variable(symbol), symbol); }
bool Builder::isCallParam(int32_t symbol) const {
  const ptx::Variable& v = variable(symbol);
  return v.space == ptx::Space::Param && v.function >= 0 && &module().functions[v.function] == &decoder.current();
}
uint32_t Builder::frameOffset(int32_t symbol) const { return decoder.frameOffset(variable(symbol), symbol); }
uint32_t Builder::calleeStart(int32_t function) const { return decoder.calleeStart(function); }
bool Builder::recurses(int32_t function) const { return decoder.recurses(function); }
std::vector<uint32_t> Builder::branchTable(uint32_t index) const {
  return decoder.current().branchTables.at(index);
}
const std::string& Builder::target() const { return decoder.program().device.target; }
void Builder::couple() { decoder.code().coupled = true; }

uint32_t Builder::list(const std::vector<uint32_t>& slots) {
  auto& lists = decoder.code().lists;
  const auto start = static_cast<uint32_t>(lists.size());
  lists.insert(lists.end(), slots.begin(), slots.end());
  return start;
}

uint32_t Builder::sourceOf(const Operand& operand, unsigned bytes) {
  switch (operand.kind) {
    case Kind::Register: {
      const unsigned have = width(operand);
      const uint32_t slot = decoder.registerSlot(operand.reg);
      if ((have == 1) != (bytes == 1)) refuse("predicate where a value is expected, or the reverse");
      if (have == bytes) return slot;
      Op resize = resizeOp(have, bytes);
      resize.src[0] = slot;
      resize.dst = scratch(bytes);
      before_.push_back(resize);
      return resize.dst;
    }
    case Kind::Immediate: {
      uint64_t bits = operand.bits;
      if (operand.isFloat && bytes == 4 && operand.isDouble)
        bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
      if (operand.isFloat && bytes == 8 && !operand.isDouble)
        bits =
            std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
      if (bytes < 8) bits &= (uint64_t{1} << (bytes * 8)) - 1;
      return constant(bytes == 1 ? bits & 1 : bits, bytes);
    }
    case Kind::Special: return decoder.special(operand.name, bytes);
    case Kind::Symbol: {
      const ptx::Variable& v = variable(operand.symbol);
      switch (v.space) {
        case ptx::Space::Shared:
          return decoder.sharedAddress((v.isExtern ? decoder.dynamicShared() : v.offset) + operand.offset,
                                       bytes);
        case ptx::Space::Param:
          if (isEntryParam(operand.symbol)) return constant(kParamWindow + v.offset + operand.offset, bytes);
          [[fallthrough]];
        case ptx::Space::Local: return constant(frameOffset(operand.symbol) + operand.offset, bytes);
        default:
          return constant(decoder.program().variableAddresses.at(operand.symbol) + operand.offset, bytes);
      }
    }
    case Kind::Function: return constant(ptx::functionAddress(operand.symbol), bytes);
    default: refuse("operand of a kind that this instruction does not take");
  }
}

uint32_t Builder::destOf(const Operand& operand, unsigned bytes) {
  if (operand.kind == Kind::Sink) return scratch(bytes);
  if (operand.kind != Kind::Register) refuse("destination is not a register");
  const unsigned have = width(operand);
  const uint32_t slot = decoder.registerSlot(operand.reg);
  if ((have == 1) != (bytes == 1)) refuse("predicate where a value is expected, or the reverse");
  if (have == bytes) return slot;
  Op resize = resizeOp(bytes, have, signExtend);
  resize.src[0] = scratch(bytes);
  resize.dst = slot;
  after_.push_back(resize);
  return resize.src[0];
}

uint32_t Builder::predicate(size_t i, uint32_t* negate) {
  const Operand& p = operand(i);
  *negate = p.negated ? ~0u : 0u;
  return sourceOf(p, 1);
}

void Builder::addressOf(const Operand& operand, unsigned k) {
  if (operand.kind != Kind::Address) refuse("operand is not an address");
  if (operand.reg >= 0) {
    const unsigned bytes = registerBytes(decoder.current().registers[operand.reg].type);
    if (bytes < 4) refuse("address register is too narrow");
    op.src[k] = decoder.registerSlot(operand.reg);
    if (bytes == 8) op.wide |= 1u << k;
    if (k == 0) op.imm = operand.offset;
    if (k > 0 && operand.offset != 0) {
      Op add = addOp(bytes);
      add.src = {
          op.src[k],
          constant(static_cast<uint64_t>(operand.offset) & (bytes == 8 ? ~0ull : 0xffffffffull), bytes)};
      op.src[k] = add.dst = scratch(bytes);
      before_.push_back(add);
    }
    return;
  }
  Operand value;
  value.kind = operand.symbol >= 0 ? Kind::Symbol : Kind::Immediate;
  value.symbol = operand.symbol;
  value.offset = operand.offset;
  value.bits = static_cast<uint64_t>(operand.offset);
  op.src[k] = sourceOf(value, 8);
  op.wide |= 1u << k;
}

void Builder::address(size_t i, unsigned k) { addressOf(operand(i), k); }

std::unique_ptr<EntryCode> decodeEntry(const Program& program, const ptx::Function& entry) {
  auto code = std::make_unique<EntryCode>();
  code->module = program.module.get();
  code->entry = &entry;
  Decoder decoder(program, *code);
  code->start = decoder.function(static_cast<int32_t>(&entry - program.module->functions.data()));
  decoder.fillImage();
  markFragments(*code);
  markLoads(*code);
  markAwaits(*code);
  return code;
}

}  // namespace ktl
