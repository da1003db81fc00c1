// Declarations: registers, variables with arrays and initialisers, parameters.
#include <algorithm>
#include <bit>
#include <cstring>
#include "ptx_parser.h"

namespace ktl::ptx {
namespace {

constexpr TypeInfo kTypes[] = {
    {"b8", Type::B8, 1},       {"b16", Type::B16, 2},       {"b32", Type::B32, 4}, {"b64", Type::B64, 8},
    {"b128", Type::B128, 16},  {"u8", Type::U8, 1},         {"u16", Type::U16, 2}, {"u32", Type::U32, 4},
    {"u64", Type::U64, 8},     {"s8", Type::S8, 1},         {"s16", Type::S16, 2}, {"s32", Type::S32, 4},
    {"s64", Type::S64, 8},     {"f16", Type::F16, 2},       {"f16x2", Type::F16x2, 4},
    {"bf16", Type::BF16, 2},   {"bf16x2", Type::BF16x2, 4}, {"f32", Type::F32, 4}, {"f64", Type::F64, 8},
    {"pred", Type::Pred, 0},
};

constexpr uint64_t kUnsized = UINT64_MAX;  // extent of the first dimension of x[]
constexpr size_t kMaxDimensions = 8;
constexpr uint64_t kMaxVectorLanes = 4;

}  // namespace

const TypeInfo* findType(std::string_view name) {
  for (const TypeInfo& type : kTypes)
    if (type.name == name) return &type;
  return nullptr;
}

const TypeInfo& Parser::parseType() {
  if (lexer_.peek().kind == TokenKind::Dotted)
    if (const TypeInfo* type = findType(lexer_.peek().text)) {
      lexer_.take();
      return *type;
    }
  lexer_.expected("a type such as .b32");
}

uint64_t Parser::parseInteger(std::string_view what, uint64_t max) {
  if (lexer_.peek().kind != TokenKind::Integer) lexer_.expected(what);
  const Token token = lexer_.take();
  if (token.bits > max)
    Lexer::fail(token, "expected " + std::string(what) + " of at most " + std::to_string(max) + ", got " +
                           Lexer::quote(token));
  return token.bits;
}

uint32_t Parser::parseAlign() {
  const Token token = lexer_.peek();
  const uint64_t align = parseInteger("an alignment", kMaxAlign);
  if (!std::has_single_bit(align))
    Lexer::fail(token, "expected a power of two as alignment, got " + Lexer::quote(token));
  return static_cast<uint32_t>(align);
}

// .reg .b32 %r<100>, %x;
void Parser::parseRegisters() {
  for (const char* vector : {"v2", "v4"})
    if (lexer_.peek().kind == TokenKind::Dotted && lexer_.peek().text == vector)
      lexer_.expected("a scalar register type (vector registers are not part of this device)");
  const TypeInfo& type = parseType();
  do {
    const Token name = lexer_.peek();
    if (name.kind != TokenKind::Identifier) lexer_.expected("a register name");
    lexer_.take();
    if (lexer_.accept("<")) {
      const uint64_t count = parseInteger("a register count", INT32_MAX);
      lexer_.expect(">");
      scopes_.declareRange(name, {type.type, count});
    } else {
      scopes_.declare(name, {Name::Kind::Register, type.type, -1});
    }
  } while (lexer_.accept(","));
  lexer_.expect(";");
}

// What stands before a variable's name: [.align N] [.attribute(…)] [.v2|.v4] .type
Variable Parser::parseVariablePrefix(Space space, uint32_t& elementBytes) {
  Variable variable;
  variable.space = space;
  variable.line = lexer_.peek().line;
  uint32_t lanes = 1;
  for (;;) {
    if (lexer_.acceptDotted("align")) {
      variable.align = std::max(variable.align, parseAlign());
    } else if (lexer_.acceptDotted("attribute")) {
      lexer_.expect("(");
      while (!lexer_.peek().is(")")) {
        if (lexer_.peek().kind == TokenKind::End) lexer_.expected("')'");
        lexer_.take();
      }
      lexer_.take();
    } else if (lexer_.acceptDotted("v2")) {
      lanes = 2;
    } else if (lexer_.acceptDotted("v4")) {
      lanes = 4;
    } else {
      break;
    }
  }
  const Token typeToken = lexer_.peek();
  const TypeInfo& type = parseType();
  if (type.bytes == 0) Lexer::fail(typeToken, "expected a type with a size in memory, got '.pred'");
  variable.type = type.type;
  elementBytes = type.bytes * lanes;
  // Parameters: .ptr [.space] [.align N] describes what a pointer points to, not the parameter.
  if (space == Space::Param && lexer_.acceptDotted("ptr")) {
    for (const char* pointee : {"const", "global", "local", "shared"}) lexer_.acceptDotted(pointee);
    if (lexer_.acceptDotted("align")) parseAlign();
  }
  variable.align = std::max(variable.align, elementBytes);
  return variable;
}

// [2][3] after a name: its extents, the first one kUnsized for []. Sets the size in bytes (0 if unsized).
std::vector<uint64_t> Parser::parseArrayShape(Variable& variable, uint32_t elementBytes) {
  std::vector<uint64_t> shape;
  uint64_t bytes = elementBytes;
  while (lexer_.peek().is("[")) {
    const Token open = lexer_.take();
    if (shape.size() == kMaxDimensions) Lexer::fail(open, "an array has more than 8 dimensions");
    if (shape.empty() && lexer_.accept("]")) {
      shape.push_back(kUnsized);
      continue;
    }
    const Constant extent = parseConstant(lexer_);
    lexer_.expect("]");
    if (extent.isFloat || (!extent.isUnsigned && static_cast<int64_t>(extent.bits) < 0))
      Lexer::fail(open, "expected a non-negative array extent");
    if (__builtin_mul_overflow(bytes, extent.bits, &bytes) || bytes > kMaxVariableBytes)
      Lexer::fail(open, "the array is larger than the device allows (2^40 bytes)");
    shape.push_back(extent.bits);
  }
  variable.bytes = !shape.empty() && shape[0] == kUnsized ? 0 : bytes;
  return shape;
}

void Parser::parseVariables(Space space, bool isExtern) {
  if (space == Space::Const && lexer_.accept("[")) {  // .const[bank]: banks are one address space now
    parseInteger("a bank number", 10);
    lexer_.expect("]");
  }
  uint32_t elementBytes = 0;
  const Variable prefix = parseVariablePrefix(space, elementBytes);
  const TypeInfo& type = *std::find_if(std::begin(kTypes), std::end(kTypes),
                                       [&](const TypeInfo& info) { return info.type == prefix.type; });
  do {
    const Token name = lexer_.peek();
    if (name.kind != TokenKind::Identifier) lexer_.expected("a variable name");
    lexer_.take();
    Variable variable = prefix;
    variable.isExtern = isExtern;
    variable.function = current_;
    const std::vector<uint64_t> shape = parseArrayShape(variable, elementBytes);
    if (lexer_.peek().is("=")) {
      if (space != Space::Global && space != Space::Const)
        Lexer::fail(lexer_.peek(), "only .global and .const variables can have an initialiser");
      lexer_.take();
      parseInitialiser(variable, type, shape);
    } else if (!shape.empty() && shape[0] == kUnsized && !isExtern) {
      Lexer::fail(name, "the array " + Lexer::quote(name) + " needs an extent or an initialiser");
    }
    if (isExtern && space == Space::Shared) variable.bytes = 0;  // dynamic, whatever the extent says
    if (current_ >= 0) placeInFunction(variable, name);
    else if (space == Space::Local || space == Space::Param)
      Lexer::fail(name, "a .local or .param variable must be declared inside a function");
    addVariable(name, std::move(variable));
  } while (lexer_.accept(","));
  lexer_.expect(";");
}

// Offsets of a body's .local and .param variables. Scopes reuse the call block: a call's parameters live as
// long as its braces.
void Parser::placeInFunction(Variable& variable, const Token& name) {
  Function& function = module_.functions[static_cast<size_t>(current_)];
  auto place = [&](uint32_t& end, uint32_t limit, const char* what) {
    const uint64_t offset = alignUp(end, variable.align);
    if (offset + variable.bytes > limit)
      Lexer::fail(name, "more than " + std::to_string(limit) + " bytes of " + what + " in one function");
    variable.offset = offset;
    end = static_cast<uint32_t>(offset + variable.bytes);
  };
  if (variable.space == Space::Local) {
    place(function.localBytes, kMaxLocalBytes, ".local variables");
  } else if (variable.space == Space::Param) {
    place(callBytes_, kMaxLocalBytes, "call parameters");
    function.callBytes = std::max(function.callBytes, callBytes_);
  }
}

// A definition may follow an .extern declaration of the same name and takes its place.
int32_t Parser::addVariable(const Token& name, Variable variable) {
  variable.name = std::string(name.text);
  const auto& names = scopes_.innermost().names;
  const auto found = names.find(name.text);
  if (found != names.end() && found->second.kind == Name::Kind::Variable) {
    Variable& known = module_.variables[static_cast<size_t>(found->second.index)];
    if (known.space == variable.space && known.function == variable.function &&
        (known.isExtern || variable.isExtern)) {
      if (known.isExtern) known = std::move(variable);
      return found->second.index;
    }
  }
  const auto index = static_cast<int32_t>(module_.variables.size());
  scopes_.declare(name, {Name::Kind::Variable, Type::None, index});
  module_.variables.push_back(std::move(variable));
  return index;
}

// .param .align 8 .b8 name[24] in a function header.
int32_t Parser::parseParameter(int32_t function) {
  if (!lexer_.acceptDotted("param")) lexer_.expected("'.param'");
  uint32_t elementBytes = 0;
  Variable variable = parseVariablePrefix(Space::Param, elementBytes);
  const Token name = lexer_.peek();
  if (name.kind != TokenKind::Identifier) lexer_.expected("a parameter name");
  lexer_.take();
  parseArrayShape(variable, elementBytes);
  variable.function = function;
  Function& owner = module_.functions[static_cast<size_t>(function)];
  const uint64_t offset = alignUp(owner.paramBytes, variable.align);
  if (offset + variable.bytes > kMaxParamBytes)
    Lexer::fail(name, "more than " + std::to_string(kMaxParamBytes) + " bytes of parameters in one function");
  variable.offset = offset;
  owner.paramBytes = static_cast<uint32_t>(offset + variable.bytes);
  return addVariable(name, std::move(variable));
}

// = 5, = {1, 2}, = {{1, 2}, {3}}
void Parser::parseInitialiser(Variable& variable, const TypeInfo& type, const std::vector<uint64_t>& shape) {
  if (!lexer_.peek().is("{")) return parseInitialiserElement(variable, type, 0);
  const bool unsized = !shape.empty() && shape[0] == kUnsized;
  const uint64_t count = parseInitialiserRow(variable, type, shape, 0, 0);
  if (unsized) variable.bytes = count * type.bytes;
}

// One pair of braces: a row of the array's dimension `level`. Returns the index after the last element given.
uint64_t Parser::parseInitialiserRow(Variable& variable, const TypeInfo& type, const std::vector<uint64_t>& shape,
                                     size_t level, uint64_t start) {
  if (level > 0 && level >= shape.size()) lexer_.expected("a constant");
  uint64_t inner = 1;  // elements of one entry of this row; the product was checked by parseArrayShape
  for (size_t i = level + 1; i < shape.size(); ++i) inner *= shape[i];
  const bool unsized = !shape.empty() && shape[level] == kUnsized;
  const uint64_t lanes = shape.empty() ? kMaxVectorLanes : 1;  // .v4 .f32 x = {…}
  const uint64_t end = unsized ? UINT64_MAX : start + inner * (shape.empty() ? lanes : shape[level]);
  lexer_.expect("{");
  uint64_t index = start;
  while (!lexer_.peek().is("}")) {
    if (index >= end) Lexer::fail(lexer_.peek(), "more initialisers than the variable has elements");
    if (lexer_.peek().is("{")) {
      parseInitialiserRow(variable, type, shape, level + 1, index);
      index += inner;
    } else {
      parseInitialiserElement(variable, type, index * type.bytes);
      ++index;
    }
    if (!lexer_.accept(",") && !lexer_.peek().is("}")) lexer_.expected("',' or '}'");
  }
  lexer_.take();
  return index;
}

void Parser::parseInitialiserElement(Variable& variable, const TypeInfo& type, uint64_t at) {
  const Token token = lexer_.peek();
  if (variable.bytes != 0 && at + type.bytes > variable.bytes)
    Lexer::fail(token, "more initialisers than the variable has elements");
  if (token.kind == TokenKind::Identifier && token.text != "WARP_SZ") {
    parseAddressConstant(variable, at, type.bytes, 0);
    return;
  }
  const Constant value = parseConstant(lexer_);
  if (lexer_.peek().is("(")) {  // 0xff00(symbol): one byte of an address
    lexer_.take();
    const int shift = value.bits == 0 ? 0 : std::countr_zero(value.bits);
    if (value.isFloat || shift % 8 != 0 || value.bits >> shift != 0xff)
      Lexer::fail(token, "expected a mask of one byte such as 0xff00 before '(', got " + Lexer::quote(token));
    parseAddressConstant(variable, at, 1, static_cast<uint32_t>(shift));
    lexer_.expect(")");
    return;
  }
  storeConstant(variable, at, type, value, token);
}

// symbol, symbol+4, generic(symbol)+4. Generic and state-space addresses of .global and .const are equal here.
void Parser::parseAddressConstant(Variable& variable, uint64_t at, uint32_t bytes, uint32_t shift) {
  const bool generic = lexer_.peek().text == "generic";
  Token name = lexer_.take();
  const bool parenthesised = generic && lexer_.accept("(");
  if (parenthesised) {
    if (lexer_.peek().kind != TokenKind::Identifier) lexer_.expected("a variable name");
    name = lexer_.take();
    lexer_.expect(")");
  }
  const Name* target = scopes_.find(name.text);
  Relocation relocation{at, bytes, shift};
  if (target && target->kind == Name::Kind::Variable) relocation.symbol = target->index;
  else if (target && target->kind == Name::Kind::Function) relocation.function = target->index;
  else Lexer::fail(name, "undeclared variable or function " + Lexer::quote(name) + " in an initialiser");
  if (relocation.symbol >= 0) {
    const Space space = module_.variables[static_cast<size_t>(relocation.symbol)].space;
    if (space != Space::Global && space != Space::Const)
      Lexer::fail(name, "expected a .global or .const variable or a function in an initialiser, got " +
                            Lexer::quote(name));
  }
  relocation.addend = parseOffset();
  variable.relocations.push_back(relocation);
}

void Parser::storeConstant(Variable& variable, uint64_t at, const TypeInfo& type, const Constant& value,
                           const Token& token) {
  uint64_t bits = value.bits;
  if (type.type == Type::F32 || type.type == Type::F64) {
    double number = value.isUnsigned ? static_cast<double>(value.bits)
                                     : static_cast<double>(static_cast<int64_t>(value.bits));
    if (value.isFloat)
      number = value.isDouble ? std::bit_cast<double>(value.bits)
                              : std::bit_cast<float>(static_cast<uint32_t>(value.bits));
    // A literal of the variable's own width keeps its bits, NaN payloads included.
    const bool exact = value.isFloat && value.isDouble == (type.type == Type::F64);
    if (!exact) bits = type.type == Type::F64 ? std::bit_cast<uint64_t>(number)
                                              : std::bit_cast<uint32_t>(static_cast<float>(number));
  } else if (value.isFloat) {
    Lexer::fail(token, "expected an integer for a variable of type ." + std::string(type.name) + ", got " +
                           Lexer::quote(token));
  }
  if (bits == 0) return;
  if (variable.init.size() < at + type.bytes) {
    initialised_ += at + type.bytes - variable.init.size();
    if (initialised_ > kMaxInitialisedBytes)
      Lexer::fail(token, "the module's initialisers reach over more than " + std::to_string(kMaxInitialisedBytes) +
                             " bytes");
    variable.init.resize(at + type.bytes);
  }
  std::memcpy(variable.init.data() + at, &bits, std::min<size_t>(type.bytes, sizeof bits));
}

}  // namespace ktl::ptx
