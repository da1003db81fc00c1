#include "ptx_scope.h"

namespace ktl::ptx {
namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }

// The range that contains `name`, trying the longest run of digits as its number first.
const RegisterRange* findRange(const Scope& scope, std::string_view name) {
  constexpr size_t kMaxDigits = 9;
  size_t split = name.size();
  while (split > 1 && name.size() - split < kMaxDigits && isDigit(name[split - 1])) --split;
  for (; split < name.size(); ++split) {
    if (name[split] == '0' && split + 1 < name.size()) continue;  // numbers have no leading zeros
    const auto found = scope.ranges.find(name.substr(0, split));
    if (found == scope.ranges.end()) continue;
    uint64_t number = 0;
    for (char c : name.substr(split)) number = number * 10 + static_cast<uint64_t>(c - '0');
    if (number < found->second.count) return &found->second;
  }
  return nullptr;
}

}  // namespace

Name* Scopes::find(std::string_view name) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->names.find(name);
    if (found != scope->names.end()) return &found->second;
    if (scope->ranges.empty()) continue;
    if (const RegisterRange* range = findRange(*scope, name))
      return &scope->names.emplace(name, Name{Name::Kind::Register, range->type, -1}).first->second;
  }
  return nullptr;
}

Name& Scopes::declare(const Token& at, Name name) {
  const auto [entry, added] = innermost().names.emplace(at.text, name);
  if (!added) Lexer::fail(at, Lexer::quote(at) + " is declared twice in one scope");
  return entry->second;
}

void Scopes::declareRange(const Token& at, RegisterRange range) {
  if (!innermost().ranges.emplace(at.text, range).second)
    Lexer::fail(at, "the register range " + Lexer::quote(at) + " is declared twice in one scope");
}

}  // namespace ktl::ptx
