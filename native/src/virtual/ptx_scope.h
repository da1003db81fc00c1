// Names of a PTX text while it is parsed: nested scopes of registers, register ranges, variables and labels.
#pragma once
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>
#include "ptx_lexer.h"
#include "program.h"

namespace ktl::ptx {

struct Name {
  enum class Kind : uint8_t { Register, Variable, Function, Label, Table, Prototype };
  Kind kind = Kind::Register;
  Type type = Type::None;  // Register
  int32_t index = -1;      // Register: -1 until an instruction names it; Label: instruction index; else its list's
};

// A branch to a label that may still come. `table` false: operand `slot` of instruction `owner`;
// true: entry `slot` of branch table `owner`.
struct PendingLabel {
  bool table = false;
  uint32_t owner = 0, slot = 0;
  Token at;
};

struct RegisterRange {
  Type type = Type::None;
  uint64_t count = 0;
};

struct Scope {
  std::unordered_map<std::string_view, Name> names;
  std::unordered_map<std::string_view, RegisterRange> ranges;  // by prefix: .reg .b32 %r<100>
  std::vector<PendingLabel> pending;
  uint32_t callBytes = 0;  // of the call block when the scope was opened
};

class Scopes {
 public:
  size_t depth() const { return scopes_.size(); }
  Scope& innermost() { return scopes_.back(); }
  Scope& outermost() { return scopes_.front(); }
  void open() { scopes_.emplace_back(); }
  void close() { scopes_.pop_back(); }
  // The innermost meaning of a name, or nullptr. A register of a range becomes a name of its scope at first use.
  Name* find(std::string_view name);
  // Throws PtxSyntax if the innermost scope has that name already.
  Name& declare(const Token& at, Name name);
  void declareRange(const Token& at, RegisterRange range);

 private:
  std::vector<Scope> scopes_;
};

}  // namespace ktl::ptx
