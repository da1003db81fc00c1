#include "ptx_lexer.h"
#include <array>
#include <bit>
#include <cstdlib>

namespace ktl::ptx {
namespace {

enum : uint8_t { kIdentifierStart = 1, kIdentifier = 2, kDigit = 4, kHex = 8 };

constexpr std::array<uint8_t, 256> makeClasses() {
  std::array<uint8_t, 256> classes{};
  for (int c = 0; c < 256; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (letter || c == '_' || c == '$' || c == '%') classes[c] |= kIdentifierStart;
    if (letter || digit || c == '_' || c == '$') classes[c] |= kIdentifier;
    if (digit) classes[c] |= kDigit;
    if (digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) classes[c] |= kHex;
  }
  return classes;
}
constexpr auto kClasses = makeClasses();

bool has(char c, uint8_t mask) { return kClasses[static_cast<uint8_t>(c)] & mask; }

uint32_t hexValue(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

}  // namespace

Lexer::Lexer(std::string_view source) : source_(source) {
  // The driver API takes C strings, so files often end in a NUL.
  while (!source_.empty() && source_.back() == '\0') source_.remove_suffix(1);
  scan();
}

Token Lexer::take() {
  Token taken = next_;
  lastEnd_ = position_;
  scan();
  return taken;
}

bool Lexer::accept(std::string_view punctuation) {
  if (!next_.is(punctuation)) return false;
  take();
  return true;
}

bool Lexer::acceptDotted(std::string_view word) {
  if (next_.kind != TokenKind::Dotted || next_.text != word) return false;
  take();
  return true;
}

Token Lexer::expect(std::string_view punctuation, std::string_view what) {
  if (next_.is(punctuation)) return take();
  expected(what.empty() ? "'" + std::string(punctuation) + "'" : std::string(what));
}

void Lexer::expected(std::string_view what) const {
  fail(next_, "expected " + std::string(what) + ", got " + quote(next_));
}

void Lexer::fail(const Token& at, const std::string& message) {
  throw Fault{Code::PtxSyntax,
              "line " + std::to_string(at.line) + ", column " + std::to_string(at.column) + ": " + message};
}

std::string Lexer::quote(const Token& token) {
  if (token.kind == TokenKind::End) return "the end of the text";
  constexpr size_t kShown = 40;
  std::string shown(token.text.substr(0, kShown));
  if (token.kind == TokenKind::Dotted) shown.insert(0, ".");
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';
  return "'" + shown + (token.text.size() > kShown ? "…'" : "'");
}

void Lexer::skipBlanks() {
  for (;;) {
    const char c = at(position_);
    if (c == '\n') {
      ++line_;
      lineStart_ = ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++position_;
    } else if (c == '/' && at(position_ + 1) == '/') {
      position_ = std::min(source_.find('\n', position_), source_.size());
    } else if (c == '/' && at(position_ + 1) == '*') {
      const size_t end = source_.find("*/", position_ + 2);
      next_.line = line_;
      next_.column = static_cast<uint32_t>(position_ - lineStart_ + 1);
      if (end == std::string_view::npos) fail(next_, "expected '*/' after '/*', got the end of the text");
      for (; position_ < end; ++position_)
        if (source_[position_] == '\n') ++line_, lineStart_ = position_ + 1;
      position_ = end + 2;
    } else {
      return;
    }
  }
}

void Lexer::scan() {
  skipBlanks();
  next_ = Token{};
  next_.line = line_;
  next_.column = static_cast<uint32_t>(position_ - lineStart_ + 1);
  const size_t start = position_;
  if (position_ >= source_.size()) {
    next_.text = source_.substr(source_.size(), 0);
    return;
  }
  const char c = source_[position_];
  if (has(c, kIdentifierStart) && !(c == '%' && !has(at(position_ + 1), kIdentifier))) {
    next_.kind = TokenKind::Identifier;
    do ++position_;
    while (has(at(position_), kIdentifier));
    next_.text = source_.substr(start, position_ - start);
  } else if (has(c, kDigit)) {
    scanNumber();
  } else if (c == '.' && has(at(position_ + 1), kIdentifier)) {
    next_.kind = TokenKind::Dotted;
    ++position_;
    for (;;) {
      while (has(at(position_), kIdentifier)) ++position_;
      if (at(position_) != ':' || at(position_ + 1) != ':' || !has(at(position_ + 2), kIdentifier)) break;
      position_ += 2;
    }
    next_.text = source_.substr(start + 1, position_ - start - 1);
  } else if (c == '"') {
    scanString();
  } else {
    scanPunctuation();
  }
}

void Lexer::endNumber(size_t start) { next_.text = source_.substr(start, position_ - start); }

void Lexer::badNumber(size_t start, const char* what) {
  while (has(at(position_), kIdentifier)) ++position_;
  endNumber(start);
  fail(next_, std::string("expected ") + what + ", got " + quote(next_));
}

// 0fXXXXXXXX and 0dXXXXXXXXXXXXXXXX: the bits of a single or double.
void Lexer::scanFloatBits(size_t start, bool isDouble) {
  const size_t end = start + 2 + (isDouble ? 16 : 8);
  next_.kind = TokenKind::Float;
  next_.isDouble = isDouble;
  for (position_ += 2; has(at(position_), kHex) && position_ < end; ++position_)
    next_.bits = next_.bits << 4 | hexValue(at(position_));
  if (position_ != end || has(at(position_), kIdentifier))
    badNumber(start, isDouble ? "16 hexadecimal digits after 0d" : "8 hexadecimal digits after 0f");
  endNumber(start);
}

// Behind the digits of a decimal number: is there a fraction or an exponent?
bool Lexer::isFraction() const {
  if (at(position_) == '.') return !has(at(position_ + 1), kIdentifierStart);
  const bool sign = at(position_ + 1) == '+' || at(position_ + 1) == '-';
  return (at(position_) | 0x20) == 'e' && has(at(position_ + 1 + sign), kDigit);
}

void Lexer::scanFraction(size_t start) {
  if (at(position_) == '.')
    for (++position_; has(at(position_), kDigit);) ++position_;
  if ((at(position_) | 0x20) == 'e') {
    position_ += 2;
    while (has(at(position_), kDigit)) ++position_;
  }
  next_.kind = TokenKind::Float;
  next_.isDouble = true;
  endNumber(start);
  next_.bits = std::bit_cast<uint64_t>(std::strtod(std::string(next_.text).c_str(), nullptr));
}

// False: more than 64 bits.
bool Lexer::scanDigits(size_t start, uint32_t base) {
  bool overflow = false;
  for (; has(at(position_), base == 16 ? kHex : kDigit); ++position_) {
    const uint32_t digit = hexValue(at(position_));
    if (digit >= base) badNumber(start, base == 8 ? "an octal digit" : "a binary digit");
    overflow |= __builtin_mul_overflow(next_.bits, uint64_t{base}, &next_.bits);
    overflow |= __builtin_add_overflow(next_.bits, uint64_t{digit}, &next_.bits);
  }
  return !overflow;
}

void Lexer::scanNumber() {
  const size_t start = position_;
  const bool zero = source_[start] == '0';
  const char second = at(start + 1) | 0x20;
  next_.kind = TokenKind::Integer;
  if (zero && (second == 'f' || second == 'd')) return scanFloatBits(start, second == 'd');
  const uint32_t base = !zero ? 10 : second == 'x' ? 16 : second == 'b' ? 2 : has(at(start + 1), kDigit) ? 8 : 10;
  if (base != 10) position_ += base == 8 ? 1 : 2;
  const size_t first = position_;
  const bool fits = scanDigits(start, base);
  if (base == 10 && isFraction()) return scanFraction(start);
  if (position_ == first && base != 8) badNumber(start, "digits");
  if ((at(position_) | 0x20) == 'u') {
    next_.isUnsigned = true;
    ++position_;
  }
  if (has(at(position_), kIdentifier)) badNumber(start, "a number");
  endNumber(start);
  if (!fits) fail(next_, "expected a number of at most 64 bits, got " + quote(next_));
  if (next_.bits >> 63) next_.isUnsigned = true;
}

void Lexer::scanString() {
  const size_t start = ++position_;
  next_.kind = TokenKind::String;
  while (position_ < source_.size() && source_[position_] != '"' && source_[position_] != '\n') {
    const bool escape = source_[position_] == '\\' && position_ + 1 < source_.size();
    position_ += escape && source_[position_ + 1] != '\n' ? 2 : 1;
  }
  next_.text = source_.substr(start, position_ - start);
  if (at(position_) != '"') fail(next_, "expected '\"' at the end of the string, got the end of the line");
  ++position_;
}

void Lexer::scanPunctuation() {
  static constexpr std::string_view kDouble[] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
  static constexpr std::string_view kSingle = "(){}[]<>,;:@!|+-*/%&^~?=";
  next_.kind = TokenKind::Punctuation;
  next_.text = source_.substr(position_, 2);
  for (std::string_view candidate : kDouble)
    if (next_.text == candidate) {
      position_ += 2;
      return;
    }
  next_.text = source_.substr(position_, 1);
  const char c = source_[position_];
  if (kSingle.find(c) == std::string_view::npos) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte > ' ' && byte <= '~') fail(next_, "expected PTX, got the character " + quote(next_));
    static constexpr char kHexDigits[] = "0123456789abcdef";
    fail(next_, std::string("expected PTX, got the byte 0x") + kHexDigits[byte >> 4] + kHexDigits[byte & 15]);
  }
  ++position_;
}

}  // namespace ktl::ptx
