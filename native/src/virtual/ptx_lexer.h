// PTX text → tokens, on demand, with one token of look-ahead. Positions are kept so that every error names
// its line and column.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include "findings.h"

namespace ktl::ptx {

enum class TokenKind : uint8_t {
  End,
  Identifier,  // foo, %r1, $L__BB0_1, _
  Dotted,      // .foo, .shared::cta, .32x32b: without its dot
  Integer,     // bits; decimal, 0x…, 0b…, octal, with or without U
  Float,       // bits; 0f… (single) or 0d… and decimal (double)
  String,      // text without quotes, escapes left as they are
  Punctuation, // one of ( ) { } [ ] < > , ; : @ ! | + - * / % & ^ ~ ? = and << >> <= >= == != && ||
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;
  uint32_t line = 1, column = 1;  // 1-based
  uint64_t bits = 0;
  bool isUnsigned = false;  // Integer with U, or too large for a signed 64-bit number
  bool isDouble = false;    // Float
  bool is(std::string_view punctuation) const {
    return kind == TokenKind::Punctuation && text == punctuation;
  }
};

class Lexer {
 public:
  explicit Lexer(std::string_view source);
  const Token& peek() const { return next_; }
  Token take();
  // Consumes the next token if it is this punctuation / this dotted word.
  bool accept(std::string_view punctuation);
  bool acceptDotted(std::string_view word);
  // Like accept, but throws "expected WHAT, got …" ("'PUNCTUATION'" when `what` is empty).
  Token expect(std::string_view punctuation, std::string_view what = {});
  // Offset of the next token and of the end of the token taken last: the source text of what lies between.
  size_t nextOffset() const { return static_cast<size_t>(next_.text.data() - source_.data()); }
  size_t lastEnd() const { return lastEnd_; }
  std::string_view source() const { return source_; }
  [[noreturn]] void expected(std::string_view what) const;
  [[noreturn]] static void fail(const Token& at, const std::string& message);
  static std::string quote(const Token& token);

 private:
  void skipBlanks();
  void scan();
  void scanNumber();
  void scanFloatBits(size_t start, bool isDouble);
  void scanFraction(size_t start);
  bool scanDigits(size_t start, uint32_t base);
  bool isFraction() const;
  void endNumber(size_t start);
  [[noreturn]] void badNumber(size_t start, const char* what);
  void scanString();
  void scanPunctuation();
  char at(size_t offset) const { return offset < source_.size() ? source_[offset] : '\0'; }

  std::string_view source_;
  size_t position_ = 0, lineStart_ = 0, lastEnd_ = 0;
  uint32_t line_ = 1;
  Token next_;
};

}  // namespace ktl::ptx
