// Edits of PTX text: stretches of kernels with other numbers, registers, modifiers and lines.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include "fuzz.h"

namespace ktl::fuzz {
namespace {

using Lines = std::vector<std::string>;

Lines linesOf(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string trimmed(const std::string& line) {
  const size_t at = line.find_first_not_of(" \t");
  return at == std::string::npos ? "" : line.substr(at);
}

// A module with one entry: what stands before its body, the declarations in it, and its instructions.
struct Kernel {
  std::string text, entry, target, head;
  Lines declarations, body;
  std::vector<std::pair<uint64_t, uint64_t>> params;
};

Kernel parseKernel(const std::string& text) {
  Kernel kernel;
  kernel.text = text;
  bool inside = false;
  uint64_t end = 0;
  int depth = 0;
  for (const std::string& line : linesOf(text)) {
    const std::string word = trimmed(line);
    if (word.rfind(".target", 0) == 0) kernel.target = word.substr(8, word.find_first_of(", ;\n", 8) - 8);
    if (const size_t at = word.find(".entry "); at != std::string::npos && !inside)
      kernel.entry = word.substr(at + 7, word.find_first_of("( ", at + 7) - at - 7);
    if (word.rfind(".param", 0) == 0 && !inside) {
      uint64_t bytes = word.find("64 ") != std::string::npos && word.find("align") == std::string::npos ? 8 : 4, align = bytes;
      if (const size_t open = word.find('['); open != std::string::npos) {
        bytes = std::stoull(word.substr(open + 1));
        align = word.find(".align 64") != std::string::npos ? 64 : 8;
      }
      end = (end + align - 1) / align * align;
      kernel.params.emplace_back(end, bytes);
      end += bytes;
    }
    if (!inside) {
      kernel.head += line + "\n";
      if (word == "{" && !kernel.entry.empty()) inside = true, depth = 1;
      continue;
    }
    depth += static_cast<int>(std::count(word.begin(), word.end(), '{')) - static_cast<int>(std::count(word.begin(), word.end(), '}'));
    if (depth == 0) break;
    const bool declares = depth == 1 && (word.rfind(".reg", 0) == 0 || word.rfind(".shared", 0) == 0 || word.rfind(".local", 0) == 0);
    if (!word.empty()) (declares ? kernel.declarations : kernel.body).push_back(word);
  }
  return kernel;
}

const std::vector<Kernel>& kernelsOf(const std::vector<std::string>& corpus) {
  static const std::vector<Kernel> kernels = [&] {
    std::vector<Kernel> all;
    for (const std::string& text : corpus) all.push_back(parseKernel(text));
    return all;
  }();
  return kernels;
}

struct Piece {
  size_t at, length;
};
// Numbers (with their sign) or registers of a line.
std::vector<Piece> pieces(const std::string& line, bool registers) {
  std::vector<Piece> found;
  for (size_t i = 0; i < line.size();) {
    const char c = line[i];
    size_t end = i + 1;
    if (c == '%') {
      while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) || line[end] == '_')) ++end;
      if (registers) found.push_back({i, end - i});
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$') {
      while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) || line[end] == '_' || line[end] == ':')) ++end;
    } else if (std::isdigit(static_cast<unsigned char>(c)) || (c == '-' && end < line.size() && std::isdigit(static_cast<unsigned char>(line[end])))) {
      while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) || line[end] == '.')) ++end;
      if (!registers) found.push_back({i, end - i});
    }
    i = end;
  }
  return found;
}

void editLine(Random& random, std::string& line, const Lines& all) {
  const auto swapWith = [&](bool registers) {
    const std::vector<Piece> own = pieces(line, registers);
    if (own.empty()) return;
    const Piece at = pick(random, own);
    if (!registers) {
      line.replace(at.at, at.length, literal(random, wild(random)));
      return;
    }
    const std::string& other = pick(random, all);
    const std::vector<Piece> theirs = pieces(other, true);
    if (theirs.empty()) return;
    const Piece from = pick(random, theirs);
    const std::string name = other.substr(from.at, from.length);
    line.replace(at.at, at.length, name);
  };
  switch (random.below(10)) {
    case 0: case 1: case 2: case 3: return swapWith(false);
    case 4: case 5: return swapWith(true);
    case 6: {  // one modifier less, or one of another line
      const size_t dot = line.find('.'), end = line.find_first_of(" ;.", dot == std::string::npos ? 0 : dot + 1);
      if (dot == std::string::npos || end == std::string::npos) return;
      const std::string& other = pick(random, all);
      const size_t from = other.find('.'), to = other.find_first_of(" ;.", from == std::string::npos ? 0 : from + 1);
      line.replace(dot, end - dot, chance(random, 2) || from == std::string::npos || to == std::string::npos ? "" : other.substr(from, to - from));
      return;
    }
    case 7:
      if (!line.empty()) line[random.below(static_cast<uint32_t>(line.size()))] = static_cast<char>(random.next());
      return;
    case 8: {
      static constexpr const char* kTokens[] = {"{", "}", "[", "]", "(", ")", ";", ",", ":", "@", "|", "_", "!", "-", "+", "0x", "%tid.x", "%r1", "/*", "\""};
      line.insert(random.below(static_cast<uint32_t>(line.size()) + 1), pick(random, kTokens));
      return;
    }
    default: line = line.substr(0, random.below(static_cast<uint32_t>(line.size()) + 1)); return;
  }
}

void edit(Random& random, Lines& lines) {
  for (uint32_t edits = random.below(5); edits > 0 && !lines.empty(); --edits) {
    const uint32_t at = random.below(static_cast<uint32_t>(lines.size()));
    switch (random.below(6)) {
      case 0: lines.erase(lines.begin() + at); break;
      case 1: lines.insert(lines.begin() + random.below(static_cast<uint32_t>(lines.size())), std::string(lines[at])); break;
      case 2: std::swap(lines[at], lines[random.below(static_cast<uint32_t>(lines.size()))]); break;
      default: editLine(random, lines[at], lines); break;
    }
  }
}

// Values for the registers that the stretch reads: addresses, small numbers, extremes.
std::string values(Random& random, const Lines& lines, bool sm100) {
  std::set<std::string> used;
  for (const std::string& line : lines)
    for (const Piece& piece : pieces(line, true)) used.insert(line.substr(piece.at, piece.length));
  std::string text;
  for (const std::string& name : used) {
    if (chance(random, 6)) continue;
    if (name.rfind("%rd", 0) == 0) {
      uint64_t value = kBuffer + 64 * random.below(64);
      if (chance(random, 4)) value = sharedDescriptor(random, sm100);
      if (chance(random, 8)) value = wild(random);
      text += "mov.b64 " + name + ", " + std::to_string(value) + ";\n";
    } else if (name.rfind("%r", 0) == 0 && name.size() > 2 && std::isdigit(static_cast<unsigned char>(name[2]))) {
      uint64_t value = random.below(64);
      if (chance(random, 3)) value = 1024 + 64 * random.below(32);
      if (chance(random, 10)) value = wild(random);
      text += chance(random, 8) ? "mov.u32 " + name + ", %tid.x;\n" : "mov.b32 " + name + ", " + std::to_string(value & 0xffffffff) + ";\n";
    }
  }
  return text;
}

std::string stretch(Random& random, const Kernel& kernel) {
  Lines lines;
  const auto size = static_cast<uint32_t>(kernel.body.size());
  for (uint32_t parts = 1 + random.below(3); parts > 0; --parts) {
    const uint32_t begin = random.below(size), end = std::min(size, begin + 2 + random.below(24));
    lines.insert(lines.end(), kernel.body.begin() + begin, kernel.body.begin() + end);
  }
  const std::string preset = values(random, lines, kernel.target.rfind("sm_100", 0) == 0);
  if (!chance(random, 8)) edit(random, lines);
  std::string text = kernel.head;
  for (const std::string& line : kernel.declarations) text += line + "\n";
  text += preset;
  std::set<std::string> defined, wanted;
  int depth = 0;
  for (const std::string& line : lines) {
    const auto opened = static_cast<int>(std::count(line.begin(), line.end(), '{')), closed = static_cast<int>(std::count(line.begin(), line.end(), '}'));
    if (depth + opened - closed < 0) continue;
    if (const size_t colon = line.find(':'); colon != std::string::npos && line.find_first_of(" .%\t") > colon)
      if (!defined.insert(line.substr(0, colon)).second) continue;
    depth += opened - closed;
    if (const size_t branch = line.find("bra"); branch != std::string::npos) {
      const size_t blank = line.find_last_of(" \t"), end = line.find(';');
      if (blank != std::string::npos && end != std::string::npos && blank < end) wanted.insert(line.substr(blank + 1, end - blank - 1));
    }
    text += line + "\n";
  }
  for (; depth > 0; --depth) text += "}\n";
  for (const std::string& label : wanted)
    if (!defined.contains(label)) text += label + ":\n";
  return text + "ret;\n}\n";
}

}  // namespace

Mutant textMutant(Random& random, const std::vector<std::string>& corpus) {
  const Kernel& kernel = pick(random, kernelsOf(corpus));
  Mutant mutant;
  surround(random, mutant, false);
  mutant.entry = kernel.entry;
  mutant.target = kernel.target == "sm_100a" ? "sm_100a" : "sm_90a";
  fillParameters(random, mutant, kernel.params);
  if (!chance(random, 100)) {
    mutant.ptx = stretch(random, kernel);
    return mutant;
  }
  Lines lines = linesOf(kernel.text);
  edit(random, lines);
  for (const std::string& line : lines) mutant.ptx += line + "\n";
  return mutant;
}

}  // namespace ktl::fuzz
