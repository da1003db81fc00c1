// Shared memory layout. Static variables from 0x400 up in order of declaration; dynamic shared memory at the
// next 16-byte step after them, or at the alignment that its declaration asks for (both as ptxas does).
#include <algorithm>
#include <numeric>
#include "ptx_parser.h"

namespace ktl::ptx {
namespace {

struct Use {
  uint32_t sharedEnd = kSharedBase;  // one past the last common static variable that the function uses
  uint32_t dynamicAlign = 16;
};

// Raises values[f] to the largest value of any function that f calls, however deep. Callees in descending
// order of value, each marking its callers once: linear in the number of calls.
template <class Get>
void raiseToCallees(std::vector<Use>& uses, const std::vector<std::vector<uint32_t>>& callers, Get get) {
  std::vector<uint32_t> order(uses.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto larger = [&](uint32_t a, uint32_t b) { return get(uses[a]) > get(uses[b]); };
  std::stable_sort(order.begin(), order.end(), larger);
  std::vector<bool> done(uses.size());
  std::vector<uint32_t> work;
  for (uint32_t root : order) {
    if (done[root]) continue;
    const uint32_t value = get(uses[root]);
    done[root] = true;
    work.push_back(root);
    while (!work.empty()) {
      const uint32_t function = work.back();
      work.pop_back();
      get(uses[function]) = value;
      for (uint32_t caller : callers[function])
        if (!done[caller]) done[caller] = true, work.push_back(caller);
    }
  }
}

class Layout {
 public:
  explicit Layout(Module& module) : module_(module), uses_(module.functions.size()), callers_(uses_.size()) {}

  void run() {
    uint32_t end = kSharedBase;
    for (Variable& variable : module_.variables)
      if (isStaticShared(variable) && !ownedByEntry(variable)) end = place(variable, end);
    for (uint32_t f = 0; f < uses_.size(); ++f) scan(f);
    Use any;  // of an indirect call: it may reach every device function
    for (uint32_t f = 0; f < uses_.size(); ++f)
      if (!module_.functions[f].isEntry) include(any, uses_[f]);
    for (uint32_t caller : indirectCallers_) include(uses_[caller], any);
    raiseToCallees(uses_, callers_, [](auto& use) -> auto& { return use.sharedEnd; });
    raiseToCallees(uses_, callers_, [](auto& use) -> auto& { return use.dynamicAlign; });
    std::vector<uint32_t> ends(uses_.size());
    for (uint32_t f = 0; f < uses_.size(); ++f) ends[f] = uses_[f].sharedEnd;
    for (Variable& variable : module_.variables)
      if (isStaticShared(variable) && ownedByEntry(variable)) {
        uint32_t& own = ends[static_cast<size_t>(variable.function)];
        own = place(variable, own);
      }
    for (uint32_t f = 0; f < uses_.size(); ++f) {
      Function& function = module_.functions[f];
      function.staticSharedBytes = ends[f] - kSharedBase;
      function.dynamicSharedOffset = static_cast<uint32_t>(alignUp(ends[f], uses_[f].dynamicAlign));
    }
  }

 private:
  static bool isStaticShared(const Variable& variable) {
    return variable.space == Space::Shared && !variable.isExtern;
  }

  bool ownedByEntry(const Variable& variable) const {
    return variable.function >= 0 && module_.functions[static_cast<size_t>(variable.function)].isEntry;
  }

  static void include(Use& to, const Use& from) {
    to.sharedEnd = std::max(to.sharedEnd, from.sharedEnd);
    to.dynamicAlign = std::max(to.dynamicAlign, from.dynamicAlign);
  }

  uint32_t place(Variable& variable, uint32_t end) const {
    variable.offset = alignUp(end, variable.align);
    if (variable.offset + variable.bytes > kSharedBase + kMaxStaticSharedBytes) {
      Token at;
      at.line = variable.line;
      Lexer::fail(at, "static .shared variables need more than " + std::to_string(kMaxStaticSharedBytes) +
                          " bytes with '" + variable.name.substr(0, 40) +
                          "'; use dynamic shared memory (.extern .shared)");
    }
    return static_cast<uint32_t>(variable.offset + variable.bytes);
  }

  void scan(uint32_t f) {
    for (const Instruction& instruction : module_.functions[f].instructions) {
      if (instruction.opcode == "call" && instruction.operands[1].kind == Operand::Kind::Register)
        if (indirectCallers_.empty() || indirectCallers_.back() != f) indirectCallers_.push_back(f);
      for (const Operand& operand : instruction.operands) {
        note(f, operand);
        for (const Operand& element : operand.elements) note(f, element);
      }
    }
  }

  void note(uint32_t f, const Operand& operand) {
    if (operand.symbol < 0) return;
    if (operand.kind == Operand::Kind::Function) {
      callers_[static_cast<size_t>(operand.symbol)].push_back(f);
      return;
    }
    const Variable& variable = module_.variables[static_cast<size_t>(operand.symbol)];
    if (variable.space != Space::Shared) return;
    Use& use = uses_[f];
    if (variable.isExtern) use.dynamicAlign = std::max(use.dynamicAlign, variable.align);
    else if (!ownedByEntry(variable))
      use.sharedEnd = std::max(use.sharedEnd, static_cast<uint32_t>(variable.offset + variable.bytes));
  }

  Module& module_;
  std::vector<Use> uses_;
  std::vector<std::vector<uint32_t>> callers_;
  std::vector<uint32_t> indirectCallers_;
};

}  // namespace

void layoutShared(Module& module) { Layout(module).run(); }

}  // namespace ktl::ptx
