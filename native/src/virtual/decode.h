// Decoded programs. A PTX instruction becomes one micro-operation (sometimes with a resize before or after
// it); everything an operation reads (registers, immediates, special registers, symbol addresses) is a slot
// of the warp's register file, so no handler ever asks what kind an operand is.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>
#include "machine.h"
#include "special_register.h"
#include "taint.h"

namespace ktl {

struct Warp;
struct Op;

// What a handler asks of the dispatch loop.
enum class Flow : uint8_t {
  Next,   // go on with the following operation
  Jump,   // the handler has set the warp's pc and groups
  Block,  // cannot execute yet: try this operation again when something has changed
  Poll,   // executed, but a spin loop is likely: let other groups and warps run first
};
using Handler = Flow (*)(Warp&, const Op&, uint32_t mask);

enum OpFlag : uint16_t {
  kRunsEmpty = 1,  // called even when the guard disables every lane
  kAligned = 2,    // every live lane of the warp must be here
  kMembers = 4,    // the live lanes named by the mask in slot op.members must be here
  kWarpgroup = 8,  // a wgmma instruction: its list holds registers of D and A
  kFragment = 16,  // another instruction that uses such registers
  kMove = 32,      // a plain copy of a 32-bit register
  kLoaded = 64,    // uses registers that some tcgen05.ld writes
  kRepack = 128,   // a mov that takes a register apart or puts one together
  kFetches = 256,  // a load of global memory: its list holds the registers
  kAwaits = 512,   // uses such registers
  kOrdered = 1024,  // no compiler moves it, or loads ahead of it
};

// What a blocked operation waits for; used by hang reports.
enum class Wait : uint8_t { None, Mbarrier, Barrier, ClusterBarrier, Tmem, Warpgroup };

struct Op {
  Handler run = nullptr;
  uint32_t guard = 0;  // slot of a predicate (constant true without a guard)
  uint32_t guardXor = 0;
  uint32_t dst = 0;
  std::array<uint32_t, 4> src{};
  uint32_t list = 0, listCount = 0;  // further slots: EntryCode::lists
  uint32_t members = 0;
  uint32_t aux = 0;  // meaning belongs to the handler
  int64_t imm = 0;   // address offset, branch target, …
  uint16_t flags = 0;
  enum class Branch : uint8_t { None, Label, Table } branch = Branch::None;  // imm or the list are labels
  Wait wait = Wait::None;
  ptx::Space space = ptx::Space::Generic;
  bool cluster = false;  // .shared::cluster addresses allowed
  uint8_t wide = 0;      // bit k: src[k] is an 8-byte address base, otherwise 4 bytes
};

// A slot is a multiple of 64 bytes; element i of lane arrays is at i * width.
constexpr uint32_t kSlotBytes = 64;
// Generic addresses: windows whose low 32 bits are the offset in their space (zero base: a generic pointer to
// shared memory may be passed where a shared::cta address is asked for). They start where global memory ends.
constexpr uint64_t kSharedWindow = kGlobalEnd + 0x1'0000'0000;
constexpr uint64_t kLocalWindow = kGlobalEnd + 0x2'0000'0000;
constexpr uint64_t kParamWindow = kGlobalEnd + 0x3'0000'0000;
constexpr uint64_t kWindowMask = ~uint64_t{0xffffffff};

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kGuarded = true;
#else
constexpr bool kGuarded = false;
#endif

constexpr uint32_t slotsOf(unsigned bytes) { return bytes <= 2 ? 1 : bytes * 32 / kSlotBytes; }

// Slots filled when a warp starts: special registers that stay fixed per thread, and addresses of shared variables
// (which carry the CTA's own rank in bits 31:24).
struct InitialSlot {
  enum class Kind : uint8_t { Special, SharedAddress } kind;
  uint8_t bytes;  // 1: predicate
  uint32_t slot;
  uint64_t bits;            // SharedAddress
  SpecialRegister special;  // Special
};

// One entry with every function it can reach, callees first: lanes inside a callee have lower program
// counters, so "lowest pc first" runs them to their return before their callers go on.
struct EntryCode {
  const ptx::Module* module = nullptr;
  const ptx::Function* entry = nullptr;
  uint32_t start = 0;  // pc of the entry
  std::vector<Op> ops;
  std::vector<const ptx::Instruction*> source;  // per op
  std::vector<std::string> forms;               // distinct opcode.modifiers
  std::vector<uint32_t> formOf;                 // per op; UINT32_MAX: a helper operation
  std::map<std::string, std::string> approximated;
  std::vector<uint32_t> lists;
  uint32_t slots = 0;
  std::vector<uint32_t> guards;  // slots between those of registers; only with AddressSanitizer, which watches them
  std::vector<InitialSlot> initial;
  // Registers and their taint as a warp starts, but for `initial`: constants are in place.
  std::vector<uint8_t> image;
  Taint taint;
  uint32_t localBytes = 0;  // per lane, all frames
  uint32_t callDepth = 1;
  bool coupled = false;  // clusters can observe each other: run them in one scheduler
  bool fetches = false;  // loads global memory
};

struct Program {
  std::shared_ptr<const ptx::Module> module;
  DeviceInfo device;
  std::vector<uint64_t> variableAddresses;
  std::map<std::string, std::unique_ptr<EntryCode>> entries;
};

class Decoder;

// Values that a constant operand may have: from low to high in steps, or the powers of two among them.
struct Range {
  const char* what;  // "the register count"
  int64_t low, high;
  uint32_t step = 1;
  bool powerOfTwo = false;
};

// What a table row's build function works with: the matched instruction and the operation under construction.
class Builder {
 public:
  Decoder& decoder;
  const ptx::Instruction& ins;
  std::vector<std::string_view> picks;  // per group of the row's pattern: the modifier chosen, or empty
  Op op;
  bool signExtend = false;  // a destination wider than the result is filled with its sign (cvt)

  // Slot of operand i read as `bytes` wide (inserting a resize before the operation when widths differ).
  uint32_t source(size_t i, unsigned bytes) { return sourceOf(operand(i), bytes); }
  uint32_t sourceOf(const ptx::Operand& operand, unsigned bytes);
  // Slot of operand i written as `bytes` wide (resized after the operation when widths differ). `_`: a
  // scratch slot.
  uint32_t dest(size_t i, unsigned bytes) { return destOf(operand(i), bytes); }
  uint32_t destOf(const ptx::Operand& operand, unsigned bytes);
  // Slots of the 32-bit registers of operand i, written as {a, b, …} or as one.
  std::vector<uint32_t> registers(size_t i, bool isDest) {
    const ptx::Operand& list = operand(i);
    std::vector<uint32_t> slots;
    const auto add = [&](const ptx::Operand& e) { slots.push_back(isDest ? destOf(e, 4) : sourceOf(e, 4)); };
    if (list.kind == ptx::Operand::Kind::Vector)
      for (const auto& e : list.elements) add(e);
    else
      add(list);
    return slots;
  }
  uint32_t predicate(size_t i, uint32_t* negate);  // slot; *negate: all ones for !p
  uint32_t constant(uint64_t bits, unsigned bytes);
  // Address operand: base slot into src[k] with its width in op.wide; the offset goes to imm for k = 0 and is
  // added to the base by an operation of its own otherwise.
  void address(size_t i, unsigned k);
  void addressOf(const ptx::Operand& operand, unsigned k);
  uint32_t list(const std::vector<uint32_t>& slots);  // stores a list, returns its index
  unsigned width(const ptx::Operand& operand) const;  // register width in bytes, 0 for other operands
  const ptx::Operand& operand(size_t i) const;        // throws UnknownInstruction when it is missing
  size_t operands() const { return ins.operands.size(); }
  // Constants are checked when the module is loaded. Value of operand i, which must be one:
  int64_t immediate(size_t i, const Range& range) const;
  // Refuses a constant outside the range; registers are for the instruction itself to check.
  void bound(size_t i, const Range& range) const;
  // The parts of an operand written {a, b, …}, or the one operand; as many as .v2, .v4 or .v8 says.
  std::vector<const ptx::Operand*> vector(const ptx::Operand& operand) const;
  std::string_view type() const;  // the last modifier that is one
  bool has(std::string_view modifier) const;
  [[noreturn]] void refuse(const std::string& why) const;
  uint32_t scratch(unsigned bytes);
  const ptx::Module& module() const;
  const ptx::Variable& variable(int32_t symbol) const;
  bool isEntryParam(int32_t symbol) const;
  bool isCallParam(int32_t symbol) const;  // a .param of the function itself
  uint32_t frameOffset(int32_t symbol) const;  // of a .local or .param variable in the lane's local block
  uint32_t calleeStart(int32_t function) const;
  bool recurses(int32_t function) const;
  std::vector<uint32_t> branchTable(uint32_t index) const;  // instruction indices
  const std::string& target() const;  // of the device
  void couple();                                            // the entry's clusters can observe each other
  std::vector<Op> before_, after_;
};

using Build = std::function<void(Builder&)>;

// One form of the instruction set. `pattern`: groups separated by blanks, alternatives by '|', a trailing '?'
// makes a group optional. Modifiers match in any order; equal alternatives are taken from left to right.
struct Row {
  const char* opcode;
  std::string pattern;
  Build build;
  const char* approximate = nullptr;  // how results may differ from the silicon; null: exact
};

using Table = std::vector<Row>;
// Row::approximate of tensor instructions, unless the launch asks for the silicon's sums.
constexpr const char* kUntruncated = "f32 fused multiply-adds instead of one truncated sum per instruction";
// Each exec_*.cc adds the rows of its family.
void addIntegerRows(Table&);
void addFloatRows(Table&);
void addHalfRows(Table&);
void addCompareRows(Table&);
void addConvertRows(Table&);
void addStochasticRows(Table&);
void addControlRows(Table&);
void addMoveRows(Table&);
void addMemoryRows(Table&);
void addAtomicRows(Table&);
void addCollectiveRows(Table&);
void addBarrierRows(Table&);
void addAsyncRows(Table&);
void addTensorRows(Table&);
void addMatrixRows(Table&);
void addWarpgroupRows(Table&);
void addWmmaRows(Table&);
void addVideoRows(Table&);

// Does the operation read one of these slots, as a source or out of its list?
inline bool reads(const EntryCode& code, const Op& op, const std::vector<bool>& slots) {
  for (const uint32_t slot : op.src)
    if (slots[slot]) return true;
  if (op.branch == Op::Branch::Table) return false;
  for (uint32_t i = 0; i < op.listCount; ++i) {
    const uint32_t slot = code.lists[op.list + i];
    if (slot < slots.size() && slots[slot]) return true;
  }
  return false;
}

// Decodes one entry; throws Fault.
std::unique_ptr<EntryCode> decodeEntry(const Program& program, const ptx::Function& entry);

// Bytes of a type modifier ("s32" 4, "f16x2" 4, "pred" 4 …), 0 when it is none.
unsigned typeBytes(std::string_view type);

}  // namespace ktl
