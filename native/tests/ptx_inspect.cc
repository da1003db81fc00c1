// Prints what the parser makes of PTX, for test/native/ptx_parser.test.ts.
//   ptx_inspect FILE            the module as JSON
//   ptx_inspect --errors FILE   FILE holds texts separated by lines "----"; one line of message (or "ok") each
//   ptx_inspect --mutate SEED COUNT FILE   parses COUNT random mutations; counts the accepted and the refused
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include "../src/virtual/findings.h"
#include "../src/virtual/program.h"

namespace {

using namespace ktl;
using namespace ktl::ptx;

std::string readFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string quote(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    if (static_cast<unsigned char>(c) >= ' ') json += c;
  }
  return json + '"';
}

template <class List, class Print>
std::string list(const List& items, Print print) {
  std::string json = "[";
  for (const auto& item : items) json += (json.size() > 1 ? "," : "") + print(item);
  return json + "]";
}

std::string number(uint64_t value) { return std::to_string(value); }

// A compact canonical text: r3, #5, #f3f800000, [r1+4], {r1,r2}, @12, v3 (variable), %tid.x, _, r1|r2,
// f2 (function).
std::string show(const Operand& operand) {
  auto parts = [&] {
    std::string text;
    for (const Operand& element : operand.elements) text += (text.empty() ? "" : ",") + show(element);
    return text;
  };
  auto offset = [&](const std::string& base) {
    return base + (operand.offset == 0 ? "" : (operand.offset > 0 ? "+" : "") + std::to_string(operand.offset));
  };
  char hex[24];
  std::snprintf(hex, sizeof hex, "%llx", static_cast<unsigned long long>(operand.bits));
  const std::string sign = operand.negated ? "!" : "";
  switch (operand.kind) {
    case Operand::Kind::Register: return sign + "r" + std::to_string(operand.reg);
    case Operand::Kind::Immediate:
      return operand.isFloat ? std::string(operand.isDouble ? "#d" : "#f") + hex
                             : "#" + std::to_string(static_cast<int64_t>(operand.bits));
    case Operand::Kind::Address:
      if (operand.reg >= 0) return "[" + offset("r" + std::to_string(operand.reg)) + "]";
      if (operand.symbol >= 0) return "[" + offset("v" + std::to_string(operand.symbol)) + "]";
      return "[" + std::to_string(operand.offset) + "]";
    case Operand::Kind::Symbol: return offset("v" + std::to_string(operand.symbol));
    case Operand::Kind::Vector: return "{" + parts() + "}";
    case Operand::Kind::Label: return "@" + std::to_string(operand.label);
    case Operand::Kind::Special: return operand.name;
    case Operand::Kind::Sink: return "_";
    case Operand::Kind::Function: return "f" + std::to_string(operand.symbol);
    case Operand::Kind::Tensor: return "T[" + parts() + "]";
    case Operand::Kind::Pair: return show(operand.elements[0]) + "|" + show(operand.elements[1]);
    case Operand::Kind::Text: return operand.name;
    case Operand::Kind::Table: return "table" + std::to_string(operand.label);
  }
  return "?";
}

std::string show(const Instruction& instruction) {
  std::string text;
  if (instruction.guard >= 0)
    text = (instruction.guardNegated ? "@!r" : "@r") + std::to_string(instruction.guard) + " ";
  text += instruction.opcode;
  for (const std::string& modifier : instruction.modifiers) text += "." + modifier;
  for (size_t i = 0; i < instruction.operands.size(); ++i) text += (i ? ", " : " ") + show(instruction.operands[i]);
  return "[" + number(instruction.line) + "," + number(instruction.cudaLine) + "," + quote(text) + "," +
         quote(instruction.text) + "]";
}

std::string show(const Variable& variable) {
  const auto relocation = [](const Relocation& r) {
    return "[" + number(r.offset) + "," + number(r.bytes) + "," + number(r.shift) + "," +
           std::to_string(r.symbol) + "," + std::to_string(r.function) + "," + std::to_string(r.addend) + "]";
  };
  return "{\"name\":" + quote(variable.name) + ",\"space\":" + number(static_cast<uint64_t>(variable.space)) +
         ",\"align\":" + number(variable.align) + ",\"bytes\":" + number(variable.bytes) +
         ",\"extern\":" + (variable.isExtern ? "true" : "false") + ",\"offset\":" + number(variable.offset) +
         ",\"function\":" + std::to_string(variable.function) +
         ",\"init\":" + list(variable.init, [](uint8_t byte) { return number(byte); }) +
         ",\"relocations\":" + list(variable.relocations, relocation) + "}";
}

std::string show(const Function& function) {
  const auto extents = [](const uint32_t(&e)[3]) {
    return "[" + number(e[0]) + "," + number(e[1]) + "," + number(e[2]) + "]";
  };
  const auto index = [](int32_t i) { return std::to_string(i); };
  return "{\"name\":" + quote(function.name) + ",\"entry\":" + (function.isEntry ? "true" : "false") +
         ",\"body\":" + (function.hasBody ? "true" : "false") + ",\"params\":" + list(function.params, index) +
         ",\"returns\":" + list(function.returns, index) + ",\"paramBytes\":" + number(function.paramBytes) +
         ",\"callBytes\":" + number(function.callBytes) + ",\"localBytes\":" + number(function.localBytes) +
         ",\"sharedBytes\":" + number(function.staticSharedBytes) +
         ",\"dynamicShared\":" + number(function.dynamicSharedOffset) +
         ",\"maxThreads\":" + number(function.maxThreads) + ",\"maxRegisters\":" + number(function.maxRegisters) +
         ",\"requiredThreads\":" + extents(function.requiredThreads) +
         ",\"requiredCluster\":" + extents(function.requiredCluster) +
         ",\"registers\":" + list(function.registers, [](const Register& r) { return quote(r.name); }) +
         ",\"tables\":" + list(function.branchTables, [](const auto& t) { return list(t, number); }) +
         ",\"instructions\":" + list(function.instructions, [](const Instruction& i) { return show(i); }) + "}";
}

std::string attempt(std::string source) {
  try {
    parse(std::move(source));
    return "ok";
  } catch (const Fault& fault) {
    return fault.message;
  }
}

int inspect(const char* path) {
  const std::string source = readFile(path);
  try {
    const auto module = parse(source);
    std::cout << "{\"version\":" << quote(module->version) << ",\"target\":" << quote(module->target)
              << ",\"bytes\":" << source.size()
              << ",\"files\":" << list(module->files, quote)
              << ",\"variables\":" << list(module->variables, [](const Variable& v) { return show(v); })
              << ",\"functions\":" << list(module->functions, [](const Function& f) { return show(f); }) << "}\n";
    return 0;
  } catch (const Fault& fault) {
    std::cerr << fault.message << "\n";
    return 1;
  }
}

int errors(const char* path) {
  std::istringstream lines(readFile(path));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line != "----") {
      text += line + "\n";
      continue;
    }
    std::cout << attempt(text) << "\n";
    text.clear();
  }
  return 0;
}

// Deletes, repeats, swaps or replaces a stretch of the text, a few times.
int mutate(uint64_t seed, int count, const char* path) {
  const std::string source = readFile(path);
  static constexpr const char* kTokens[] = {
      "{", "}", "[",  "]",  "(",    ")",      ";",    ",",   ":",           "@",  "|",  "_",
      "!", "-", "<",  "0x", "0f",   ".reg",   ".param", ".b32", "%r1", "99999999999", "\"", "/*",
  };
  std::mt19937_64 random(seed);
  int accepted = 0, refused = 0;
  for (int i = 0; i < count; ++i) {
    std::string text = source;
    for (uint64_t edits = 1 + random() % 4; edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size(), length = std::min<size_t>(random() % 24, text.size() - at);
      switch (random() % 5) {
        case 0: text.erase(at, length); break;
        case 1: text.insert(random() % text.size(), text.substr(at, length)); break;
        case 2: text[at] = static_cast<char>(random()); break;
        case 3: text.insert(at, kTokens[random() % std::size(kTokens)]); break;
        case 4: text.resize(at); break;
      }
    }
    const std::string outcome = attempt(std::move(text));
    ++(outcome == "ok" ? accepted : refused);
    if (outcome != "ok" && outcome.rfind("line ", 0) != 0) {
      std::cerr << "a message without a place: " << outcome << "\n";
      return 1;
    }
  }
  std::cout << "{\"accepted\":" << accepted << ",\"refused\":" << refused << "}\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) return inspect(argv[1]);
  if (argc == 3 && std::strcmp(argv[1], "--errors") == 0) return errors(argv[2]);
  if (argc == 5 && std::strcmp(argv[1], "--mutate") == 0)
    return mutate(std::strtoull(argv[2], nullptr, 10), std::atoi(argv[3]), argv[4]);
  std::cerr << "usage: ptx_inspect [--errors | --mutate SEED COUNT] FILE\n";
  return 2;
}
