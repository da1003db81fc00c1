#include "decode_table.h"

namespace ktl {
namespace {

struct Pattern {
  const Row* row;
  struct Choice {
    std::vector<std::string> alternatives;
    bool optional;
  };
  std::vector<Choice> groups;
};

Pattern parsePattern(const Row& row) {
  Pattern pattern{&row, {}};
  size_t i = 0;
  const std::string& text = row.pattern;
  while (i < text.size()) {
    if (text[i] == ' ') {
      ++i;
      continue;
    }
    const size_t end = std::min(text.find(' ', i), text.size());
    std::string group = text.substr(i, end - i);
    i = end;
    Pattern::Choice choice{{}, group.back() == '?'};
    if (choice.optional) group.pop_back();
    for (size_t start = 0; start <= group.size();) {
      const size_t bar = std::min(group.find('|', start), group.size());
      choice.alternatives.push_back(group.substr(start, bar - start));
      start = bar + 1;
    }
    pattern.groups.push_back(std::move(choice));
  }
  return pattern;
}

// '*' at the end of an alternative stands for any rest.
bool accepts(const std::string& alternative, const std::string& modifier) {
  if (!alternative.empty() && alternative.back() == '*')
    return modifier.compare(0, alternative.size() - 1, alternative, 0, alternative.size() - 1) == 0;
  return alternative == modifier;
}

bool matches(const Pattern& pattern, const ptx::Instruction& ins, std::vector<std::string_view>& picks) {
  picks.assign(pattern.groups.size(), {});
  std::vector<bool> taken(pattern.groups.size());
  size_t firstTypeGroup = 0;  // types are the one kind of modifier whose order counts: cvt.s32.f32
  for (const std::string& modifier : ins.modifiers) {
    bool found = false;
    const bool isType = typeBytes(modifier) != 0;
    for (size_t g = isType ? firstTypeGroup : 0; g < pattern.groups.size() && !found; ++g) {
      if (taken[g]) continue;
      for (const std::string& alternative : pattern.groups[g].alternatives)
        if (accepts(alternative, modifier)) {
          taken[g] = found = true;
          picks[g] = modifier;
          if (isType) firstTypeGroup = g + 1;
          break;
        }
    }
    if (!found) return false;
  }
  for (size_t g = 0; g < pattern.groups.size(); ++g)
    if (!taken[g] && !pattern.groups[g].optional) return false;
  return true;
}

struct Forms {
  Table rows;
  std::unordered_map<std::string, std::vector<Pattern>> byOpcode;
  Forms() {
    addIntegerRows(rows);
    addFloatRows(rows);
    addHalfRows(rows);
    addCompareRows(rows);
    addConvertRows(rows);
    addStochasticRows(rows);
    addControlRows(rows);
    addMoveRows(rows);
    addMemoryRows(rows);
    addAtomicRows(rows);
    addCollectiveRows(rows);
    addBarrierRows(rows);
    addAsyncRows(rows);
    addTensorRows(rows);
    addMatrixRows(rows);
    addWarpgroupRows(rows);
    addWmmaRows(rows);
    addVideoRows(rows);
    for (const Row& row : rows) byOpcode[row.opcode].push_back(parsePattern(row));
  }
};

const Forms& forms() {
  static const Forms instance;
  return instance;
}

}  // namespace

const Table& instructionTable() { return forms().rows; }

const Row* match(const ptx::Instruction& instruction, std::vector<std::string_view>& picks) {
  const auto found = forms().byOpcode.find(instruction.opcode);
  if (found == forms().byOpcode.end()) return nullptr;
  for (const Pattern& pattern : found->second)
    if (matches(pattern, instruction, picks)) return pattern.row;
  return nullptr;
}

}  // namespace ktl
