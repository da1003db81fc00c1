// Operands of instructions.
#include "ptx_parser.h"
#include <algorithm>
#include <iterator>

namespace ktl::ptx {
namespace {

// Predefined identifiers (PTX ISA 10); those in kVectors are followed by .x .y .z (.w).
constexpr std::string_view kVectors[] = {
    "%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid",
};
constexpr std::string_view kScalars[] = {
    "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%is_explicit_cluster", "%cluster_ctarank",
    "%cluster_nctarank", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt", "%clock",
    "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%total_smem_size",
    "%aggr_smem_size", "%dynamic_smem_size", "%current_graph_exec", "%reserved_smem_offset_begin",
    "%reserved_smem_offset_end", "%reserved_smem_offset_cap", "%reserved_smem_offset_0", "%reserved_smem_offset_1",
};
constexpr std::string_view kNumbered[] = {"%pm", "%envreg"};  // %pm0, %pm0_64, %envreg31

template <size_t N>
bool contains(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Operand::Kind kindOf(Name::Kind kind) {
  return kind == Name::Kind::Variable ? Operand::Kind::Symbol : Operand::Kind::Function;
}

}  // namespace

bool isSpecialRegister(std::string_view name) {
  return contains(kVectors, name) || contains(kScalars, name) ||
         std::any_of(std::begin(kNumbered), std::end(kNumbered), [&](std::string_view prefix) {
           return name.starts_with(prefix) && name.size() > prefix.size() && name[prefix.size()] >= '0' &&
                  name[prefix.size()] <= '9';
         });
}

// The dense index of a register, given to it when it is first named.
void Parser::useRegister(Operand& operand, Name& name, std::string_view text) {
  if (name.index < 0) {
    std::vector<Register>& registers = module_.functions[static_cast<size_t>(current_)].registers;
    name.index = static_cast<int32_t>(registers.size());
    registers.push_back({std::string(text), name.type});
  }
  operand.kind = Operand::Kind::Register;
  operand.reg = name.index;
}

// register, constant, {vector}, [address], p|q, !p, symbol+4, _; in a vector only what has no parts of its own.
Operand Parser::parseOperand(bool inVector) {
  if (++operands_ > kMaxOperands)
    Lexer::fail(lexer_.peek(), "the module has more than " + std::to_string(kMaxOperands) + " operands");
  const Token& next = lexer_.peek();
  if (!inVector && next.is("[")) return parseAddress();
  if (!inVector && next.is("{")) return parseVector();
  if (next.is("!")) {
    lexer_.take();
    if (lexer_.peek().kind != TokenKind::Identifier) lexer_.expected("a predicate register after '!'");
    Operand operand = parseNamed();
    operand.negated = true;
    return operand;
  }
  if (startsConstant(next)) return parseConstantOperand();
  if (next.kind != TokenKind::Identifier) lexer_.expected("an operand");
  Operand operand = parseNamed();
  if (inVector || !lexer_.accept("|")) return operand;
  if (lexer_.peek().kind != TokenKind::Identifier) lexer_.expected("a register after '|'");
  Operand pair;
  pair.kind = Operand::Kind::Pair;
  pair.elements.push_back(std::move(operand));
  pair.elements.push_back(parseNamed());
  return pair;
}

Operand Parser::parseConstantOperand() {
  const Constant value = parseConstant(lexer_);
  Operand operand;
  operand.kind = Operand::Kind::Immediate;
  operand.bits = value.bits;
  operand.isFloat = value.isFloat;
  operand.isDouble = value.isDouble;
  return operand;
}

// An identifier: a declared name, a special register, or the sink.
Operand Parser::parseNamed() {
  const Token token = lexer_.take();
  Operand operand;
  if (token.text == "_") return operand;
  if (Name* name = scopes_.find(token.text)) {
    switch (name->kind) {
      case Name::Kind::Register:
        useRegister(operand, *name, token.text);
        break;
      case Name::Kind::Variable:
      case Name::Kind::Function:
        operand.kind = kindOf(name->kind);
        operand.symbol = name->index;
        if (name->kind == Name::Kind::Function) operand.name = std::string(token.text);
        else operand.offset = parseOffset();
        break;
      default:
        Lexer::fail(token, "expected an operand, got the label " + Lexer::quote(token));
    }
    return operand;
  }
  if (!isSpecialRegister(token.text))
    Lexer::fail(token, "undeclared name " + Lexer::quote(token) +
                           (token.text[0] == '%' ? ": no .reg in scope declares it" : ""));
  operand.kind = Operand::Kind::Special;
  operand.name = std::string(token.text);
  if (lexer_.peek().kind == TokenKind::Dotted && contains(kVectors, token.text)) {
    const std::string_view part = lexer_.peek().text;
    if (part != "x" && part != "y" && part != "z" && part != "w") lexer_.expected("'.x', '.y' or '.z'");
    operand.name += "." + std::string(lexer_.take().text);
  }
  return operand;
}

Operand Parser::parseVector() {
  Operand vector;
  vector.kind = Operand::Kind::Vector;
  lexer_.expect("{");
  do {
    if (vector.elements.size() == kMaxVectorElements)
      Lexer::fail(lexer_.peek(), "a vector has more than " + std::to_string(kMaxVectorElements) + " elements");
    vector.elements.push_back(parseOperand(true));
  } while (lexer_.accept(","));
  lexer_.expect("}", "',' or '}'");
  return vector;
}

// [reg], [reg+16], [reg+-16], [symbol+4], [128], [map, {c0, c1}]
Operand Parser::parseAddress() {
  lexer_.expect("[");
  Operand address;
  const Token base = lexer_.peek();
  if (startsConstant(base)) {
    const Constant value = parseConstant(lexer_);
    if (value.isFloat) Lexer::fail(base, "expected an integer address, got " + Lexer::quote(base));
    address.offset = static_cast<int64_t>(value.bits);
  } else {
    if (base.kind != TokenKind::Identifier) lexer_.expected("a register, a variable or a constant address");
    address = parseNamed();
    if (address.kind != Operand::Kind::Register && address.kind != Operand::Kind::Symbol)
      Lexer::fail(base, "expected a register or a variable as address, got " + Lexer::quote(base));
    if (address.kind == Operand::Kind::Register) address.offset = parseOffset();
  }
  address.kind = Operand::Kind::Address;
  if (!lexer_.peek().is(",")) {
    lexer_.expect("]", "'+', ',' or ']'");
    return address;
  }
  Operand tensor;
  tensor.kind = Operand::Kind::Tensor;
  tensor.elements.push_back(std::move(address));
  while (lexer_.accept(",")) {
    if (!lexer_.peek().is("{")) {
      tensor.elements.push_back(parseOperand(true));
    } else {
      Operand coordinates = parseVector();
      std::move(coordinates.elements.begin(), coordinates.elements.end(), std::back_inserter(tensor.elements));
    }
    if (tensor.elements.size() > kMaxVectorElements) lexer_.expected("fewer coordinates before");
  }
  lexer_.expect("]", "',' or ']'");
  return tensor;
}

// Any number of +constant and -constant after a base.
int64_t Parser::parseOffset() {
  uint64_t offset = 0;
  while (lexer_.peek().is("+") || lexer_.peek().is("-")) {
    const Token sign = lexer_.take();
    const Constant value = parseConstant(lexer_, true);
    if (value.isFloat) Lexer::fail(sign, "expected an integer offset");
    offset = sign.is("-") ? offset - value.bits : offset + value.bits;
  }
  return static_cast<int64_t>(offset);
}

}  // namespace ktl::ptx
