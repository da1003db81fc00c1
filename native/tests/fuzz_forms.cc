// Instructions of the device's table, each operand at its extremes.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <sstream>
#include "../src/virtual/decode_table.h"
#include "fuzz.h"
#include "fuzz_form_table.h"

namespace ktl::fuzz {
namespace {

std::string opcodeOf(const std::string& line) {
  const size_t at = line[0] == '@' ? line.find(' ') + 1 : 0;
  return line.substr(at, line.find_first_of(". ;", at) - at);
}

bool belongsTo(const std::string& opcode, bool sm100) {
  if (opcode == "wgmma" || opcode == "setmaxnreg") return !sm100 || opcode == "setmaxnreg";
  return opcode != "tcgen05" || sm100;
}

// Operands that can be replaced: registers with values and numbers. Positions in the line.
struct Spot {
  size_t at, length;
  bool isRegister, isWide, isHalf;
};
std::vector<Spot> spotsOf(const std::string& line) {
  std::vector<Spot> spots;
  size_t i = line[0] == '@' ? line.find(' ') : 0;
  i = line.find(' ', i + 1);  // the opcode has none
  if (line[0] != '@') i = line.find(' ');
  while (i < line.size()) {
    if (line[i] == '%') {
      size_t end = i + 1;
      while (std::isalnum(static_cast<unsigned char>(line[end]))) ++end;
      const std::string name = line.substr(i + 1, end - i - 1);
      if (name[0] == 'r' || name[0] == 'h')
        spots.push_back({i, end - i, true, name.size() > 1 && name[1] == 'd', name[0] == 'h'});
      i = end;
    } else if (std::isdigit(static_cast<unsigned char>(line[i])) || (line[i] == '-' && std::isdigit(static_cast<unsigned char>(line[i + 1])))) {
      size_t end = i + 1;
      while (std::isalnum(static_cast<unsigned char>(line[end])) || line[end] == '.') ++end;
      spots.push_back({i, end - i, false, false, false});
      i = end;
    } else if (std::isalpha(static_cast<unsigned char>(line[i])) || line[i] == '_') {
      while (std::isalnum(static_cast<unsigned char>(line[i])) || line[i] == '_') ++i;
    } else {
      ++i;
    }
  }
  return spots;
}

// A register becomes another one that holds the value; what sets it goes to `before`.
void replaceSpot(Random& random, std::string& line, const Spot& spot, uint64_t value, std::string& before) {
  if (!spot.isRegister || chance(random, 8)) {
    line.replace(spot.at, spot.length, literal(random, value));
    return;
  }
  const std::string name = std::string(spot.isWide ? "%rd" : spot.isHalf ? "%h" : "%r") + (spot.isHalf ? "3" : "15");
  before += std::string("mov.b") + (spot.isWide ? "64 " : spot.isHalf ? "16 " : "32 ") + name + ", " +
            std::to_string(spot.isWide ? value : spot.isHalf ? value & 0xffff : value & 0xffffffff) + ";\n";
  line.replace(spot.at, spot.length, name);
}

// The modifiers of a row of the table, one choice of each group.
std::string modifiersOf(Random& random, const Row& row) {
  std::istringstream groups(row.pattern);
  std::string text, group;
  while (groups >> group) {
    if (group.back() == '?') {
      if (!chance(random, 3)) continue;
      group.pop_back();
    }
    std::vector<std::string> choices;
    std::istringstream alternatives(group);
    for (std::string choice; std::getline(alternatives, choice, '|');) choices.push_back(choice);
    std::string choice = pick(random, choices);
    if (!choice.empty() && choice.back() == '*') {
      static constexpr const char* kEvictions[] = {"evict_first", "evict_last", "128B"};
      static constexpr const char* kShapes[] = {"8k16", "8k32", "16k16", "24k8", "256k16", "4k16", "8k", "999999999999k16", "0k0"};
      choice.pop_back();
      choice += choice.rfind("m64n", 0) == 0 ? pick(random, kShapes) : pick(random, kEvictions);
    }
    text += "." + choice;
  }
  return text;
}

// A form whose modifiers are those of any row with its opcode; arithmetic on registers of any width.
std::string rowInstruction(Random& random, const Row& row) {
  std::vector<const char*> same;
  for (const char* form : kForms)
    if (opcodeOf(form) == row.opcode) same.push_back(form);
  std::string operands;
  if (!same.empty()) {
    const std::string form = pick(random, same);
    const size_t begin = form[0] == '@' ? form.find(' ') + 1 : 0, blank = form.find(' ', begin);
    operands = blank == std::string::npos ? ";" : form.substr(blank);
  } else {
    static constexpr const char* kRegisters[] = {"%r3", "%r4", "%rd0", "%rd5", "%h0", "%r7", "%f0", "%p1", "1"};
    static constexpr const char* kDestinations[] = {"%r10", "%r10", "%rd10", "%h0", "%p2", "%f0"};
    operands = std::string(" ") + pick(random, kDestinations);
    for (uint32_t count = 1 + random.below(3); count > 0; --count) operands += std::string(", ") + pick(random, kRegisters);
    operands += ";";
  }
  return row.opcode + modifiersOf(random, row) + operands;
}

std::string preamble(Random& random, bool sm100, bool prepared) {
  std::ostringstream out;
  out << ".version 9.0\n.target " << (sm100 ? "sm_100a" : "sm_90a") << "\n.address_size 64\n"
      << ".global .align 16 .b32 cell[4];\n.const .align 16 .b32 table[4] = {1, 2, 3, 4};\n"
      << ".func (.param .b32 out) callee (.param .b32 in) {\n.reg .b32 %x;\nld.param.b32 %x, [in];\nst.param.b32 [out], %x;\nret;\n}\n"
      << ".visible .entry kernel (.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .align 64 .b8 p4[128]) {\n"
      << ".reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n.reg .b16 %h<6>;\n.reg .pred %p<6>;\n.reg .f32 %f<8>;\n.reg .b128 %q<2>;\n"
      << ".shared .align 1024 .b8 data[" << (chance(random, 2) ? 8192 : 1024) << "];\n.shared .align 8 .b8 bars[32];\n"
      << ".local .align 16 .b8 local[64];\n.param .b32 argument;\n.param .b32 result;\ntargets: .branchtargets END, HERE;\n"
      << "mov.u32 %r0, data;\nmov.u32 %r1, bars;\nmov.u32 %r2, 0;\nmov.u32 %r3, %tid.x;\nmov.u32 %r4, 1;\nmov.u32 %r5, 16;\n"
      << "mov.u32 %r6, " << instructionDescriptor(random) << ";\nmov.u32 %r7, -1;\nmov.u32 %r8, 0;\nmov.u32 %r9, 128;\n"
      << "ld.param.u64 %rd0, [p0];\nld.param.u64 %rd1, [p1];\ncvt.u64.u32 %rd2, %r0;\ncvta.shared.u64 %rd2, %rd2;\n"
      << "mov.u64 %rd3, " << sharedDescriptor(random, sm100) << ";\nmov.u64 %rd4, " << sharedDescriptor(random, sm100) << ";\n"
      << "mov.u64 %rd5, 1;\nmov.u64 %rd8, local;\ncvta.local.u64 %rd6, %rd8;\nmov.u64 %rd7, 16;\nmov.b16 %h0, 1;\nmov.b16 %h1, 1;\n"
      << "setp.eq.u32 %p0, %r4, 1;\nsetp.lt.u32 %p1, %r3, 16;\nst.param.b32 [argument], %r3;\n";
  if (prepared) {
    out << "setp.eq.u32 %p3, %r3, 0;\n@%p3 mbarrier.init.shared::cta.b64 [%r1], " << 1 + random.below(2) << ";\n"
        << "st.bulk.weak.shared::cta [%r0], 1024, 0;\n";
    if (sm100) out << "setp.lt.u32 %p3, %r3, 32;\n@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1+16], 64;\n";
    out << "bar.sync 0;\n";
    if (chance(random, 2)) out << "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 16;\n";
  }
  return out.str();
}

}  // namespace

std::vector<std::string> tableOpcodes() {
  std::set<std::string> opcodes;
  for (const Row& row : instructionTable()) opcodes.insert(row.opcode);
  return {opcodes.begin(), opcodes.end()};
}

Mutant opcodeMutant(Random& random, const std::string& opcode) {
  Mutant mutant;
  surround(random, mutant, true);
  fillParameters(random, mutant, {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {64, 128}});
  const bool sm100 = belongsTo(opcode, true);
  mutant.target = sm100 ? "sm_100a" : "sm_90a";
  std::vector<const Row*> rows;
  for (const Row& row : instructionTable())
    if (row.opcode == opcode) rows.push_back(&row);
  mutant.ptx = preamble(random, sm100, true) + rowInstruction(random, *pick(random, rows)) + "\nHERE:\nEND:\nret;\n}\n";
  return mutant;
}

Mutant formMutant(Random& random, uint64_t number) {
  Mutant mutant;
  surround(random, mutant, true);
  fillParameters(random, mutant, {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {64, 128}});
  const uint64_t buffer = kBuffer, map = kBuffer + 128 * random.below(kMaps);
  if (mutant.config.params.size() >= 16) {
    std::memcpy(mutant.config.params.data(), &buffer, 8);
    std::memcpy(mutant.config.params.data() + 8, &map, 8);
  }
  // The first instruction counts through everything; the others are any.
  const std::string first = kForms[number % std::size(kForms)];
  const std::string opcode = opcodeOf(first);
  const bool sm100 = opcode == "tcgen05" || (belongsTo(opcode, false) ? chance(random, 2) && belongsTo(opcode, true) : true);
  mutant.target = sm100 ? "sm_100a" : "sm_90a";
  if ((opcode == "wgmma" || opcode == "tcgen05") && !chance(random, 4)) mutant.config.block = {128, 1, 1};
  std::string body;
  const uint32_t count = 1 + random.below(6), systematic = random.below(count);
  const Table& table = instructionTable();
  for (uint32_t i = 0; i < count; ++i) {
    std::string line;
    if (i == systematic) {
      line = first;
    } else if (chance(random, 3)) {
      line = rowInstruction(random, table[random.below(static_cast<uint32_t>(table.size()))]);
    } else {
      line = pick(random, kForms);
      // Mostly of the same family, so that they meet.
      for (uint32_t tries = 0; tries < 8 && opcodeOf(line) != opcode && !chance(random, 4); ++tries) line = pick(random, kForms);
    }
    if (!belongsTo(opcodeOf(line), sm100)) continue;
    std::string before;
    const std::vector<Spot> spots = spotsOf(line);
    if (!spots.empty()) {
      if (i == systematic) {
        const uint64_t turn = number / std::size(kForms);
        replaceSpot(random, line, spots[turn % spots.size()], extreme(turn / spots.size() % extremes()), before);
      } else if (chance(random, 2)) {
        replaceSpot(random, line, pick(random, spots), wild(random), before);
      }
    }
    if (line[0] != '@' && chance(random, 6)) line = "@%p1 " + line;
    body += before + line + "\n";
    if (chance(random, 12)) body += before + line + "\n";
  }
  const bool again = chance(random, 8);
  mutant.ptx = preamble(random, sm100, !chance(random, 6)) + (again ? "AGAIN:\n" : "") + body + "HERE:\n";
  if (again) mutant.ptx += "add.u32 %r8, %r8, 1;\nsetp.lt.u32 %p3, %r8, " + std::to_string(1 + random.below(40)) + ";\n@%p3 bra AGAIN;\n";
  if (chance(random, 2)) mutant.ptx += "bar.sync 0;\n";
  if (chance(random, 3)) mutant.ptx += "st.global.u32 [%rd0+2048], %r10;\n";
  mutant.ptx += "END:\nret;\n}\n";
  return mutant;
}

}  // namespace ktl::fuzz
