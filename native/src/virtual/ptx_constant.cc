#include "ptx_constant.h"
#include <string>

namespace ktl::ptx {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kWarpSize = 32;

struct BinaryOperator {
  std::string_view text;
  int precedence;
};
constexpr BinaryOperator kOperators[] = {
    {"||", 1}, {"&&", 2}, {"|", 3},  {"^", 4},  {"&", 5},  {"==", 6}, {"!=", 6}, {"<", 7}, {">", 7},
    {"<=", 7}, {">=", 7}, {"<<", 8}, {">>", 8}, {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10},
};
constexpr int kTernary = 0, kFactor = 10;

const BinaryOperator* findOperator(const Token& token) {
  if (token.kind != TokenKind::Punctuation) return nullptr;
  for (const BinaryOperator& op : kOperators)
    if (op.text == token.text) return &op;
  return nullptr;
}

uint64_t divide(const Token& op, uint64_t a, uint64_t b, bool isUnsigned) {
  if (b == 0) Lexer::fail(op, "division by zero in a constant expression");
  const bool remainder = op.text == "%";
  if (isUnsigned) return remainder ? a % b : a / b;
  const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  if (y == -1) return remainder ? 0 : 0 - a;  // the one signed division that overflows
  return static_cast<uint64_t>(remainder ? x % y : x / y);
}

Constant apply(const Token& op, const Constant& left, const Constant& right) {
  if (left.isFloat || right.isFloat)
    Lexer::fail(op, "expected integers on both sides of " + Lexer::quote(op) + ", got a floating-point constant");
  const uint64_t a = left.bits, b = right.bits;
  const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  const bool u = left.isUnsigned || right.isUnsigned;
  auto boolean = [](bool value) { return Constant{value ? uint64_t{1} : 0}; };
  auto integer = [&](uint64_t bits) { return Constant{bits, u}; };
  const std::string_view o = op.text;
  if (o == "+") return integer(a + b);
  if (o == "-") return integer(a - b);
  if (o == "*") return integer(a * b);
  if (o == "/" || o == "%") return integer(divide(op, a, b, u));
  if (o == "&") return integer(a & b);
  if (o == "|") return integer(a | b);
  if (o == "^") return integer(a ^ b);
  if (o == "<<") return {b < 64 ? a << b : 0, left.isUnsigned};
  if (o == ">>") {
    if (left.isUnsigned) return {b < 64 ? a >> b : 0, true};
    return {static_cast<uint64_t>(x >> (b < 64 ? b : 63)), false};
  }
  if (o == "==") return boolean(a == b);
  if (o == "!=") return boolean(a != b);
  if (o == "<") return boolean(u ? a < b : x < y);
  if (o == ">") return boolean(u ? a > b : x > y);
  if (o == "<=") return boolean(u ? a <= b : x <= y);
  if (o == ">=") return boolean(u ? a >= b : x >= y);
  if (o == "&&") return boolean(a && b);
  return boolean(a || b);
}

class ConstantParser {
 public:
  explicit ConstantParser(Lexer& lexer) : lexer_(lexer) {}

  Constant expression(int precedence) {
    if (++depth_ > kMaxDepth) Lexer::fail(lexer_.peek(), "a constant expression is nested too deeply");
    Constant left = unary();
    while (const BinaryOperator* op = findOperator(lexer_.peek())) {
      if (op->precedence < precedence) break;
      const Token token = lexer_.take();
      left = apply(token, left, expression(op->precedence + 1));
    }
    if (precedence == kTernary && lexer_.accept("?")) {
      const Constant yes = expression(kTernary);
      lexer_.expect(":");
      const Constant no = expression(kTernary);
      left = left.bits ? yes : no;
    }
    --depth_;
    return left;
  }

 private:
  // Signs and complements are collected in a loop, so that a long row of them costs no stack.
  Constant unary() {
    std::string signs;
    while (lexer_.peek().is("-") || lexer_.peek().is("+") || lexer_.peek().is("~") || lexer_.peek().is("!"))
      signs += lexer_.take().text;
    Constant value = primary();
    for (; !signs.empty(); signs.pop_back()) {
      const char sign = signs.back();
      if (value.isFloat && sign == '-') value.bits ^= uint64_t{1} << (value.isDouble ? 63 : 31);
      else if (value.isFloat && sign != '+') lexer_.expected("an integer after '~' or '!'");
      else if (sign == '-') value.bits = 0 - value.bits;
      else if (sign == '~') value.bits = ~value.bits;
      else if (sign == '!') value = {value.bits == 0 ? uint64_t{1} : 0};
    }
    return value;
  }

  Constant primary() {
    const Token& next = lexer_.peek();
    if (next.kind == TokenKind::Integer || next.kind == TokenKind::Float) {
      const Token token = lexer_.take();
      return {token.bits, token.isUnsigned, token.kind == TokenKind::Float, token.isDouble};
    }
    if (next.kind == TokenKind::Identifier && next.text == "WARP_SZ") {
      lexer_.take();
      return {kWarpSize};
    }
    if (!lexer_.accept("(")) lexer_.expected("a constant");
    for (const bool isUnsigned : {false, true})
      if (lexer_.acceptDotted(isUnsigned ? "u64" : "s64")) {
        lexer_.expect(")");
        if (++depth_ > kMaxDepth) Lexer::fail(lexer_.peek(), "a constant expression is nested too deeply");
        Constant value = unary();
        --depth_;
        if (value.isFloat) lexer_.expected("an integer after a cast");
        value.isUnsigned = isUnsigned;
        return value;
      }
    const Constant value = expression(kTernary);
    lexer_.expect(")");
    return value;
  }

  Lexer& lexer_;
  int depth_ = 0;
};

}  // namespace

bool startsConstant(const Token& token) {
  return token.kind == TokenKind::Integer || token.kind == TokenKind::Float || token.is("-") || token.is("+") ||
         token.is("~") || token.is("(") || (token.kind == TokenKind::Identifier && token.text == "WARP_SZ");
}

Constant parseConstant(Lexer& lexer, bool factor) {
  return ConstantParser(lexer).expression(factor ? kFactor : kTernary);
}

}  // namespace ktl::ptx
