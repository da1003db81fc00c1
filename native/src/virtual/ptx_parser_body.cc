// Function bodies: scopes, labels, line information and instructions.
#include <algorithm>
#include "ptx_parser.h"

namespace ktl::ptx {
namespace {

constexpr size_t kMaxTextLength = 200;  // of an instruction in reports

}  // namespace

void Parser::parseBody(int32_t function) {
  current_ = function;
  callBytes_ = 0;
  cudaLine_ = cudaFile_ = 0;
  const size_t outside = scopes_.depth();
  lexer_.expect("{");
  openScope();
  while (scopes_.depth() > outside)
    if (!parseStatement()) lexer_.expected("a statement or '}'");
  current_ = -1;
}

void Parser::openScope() {
  if (scopes_.depth() >= kMaxScopeDepth)
    Lexer::fail(lexer_.peek(), "scopes are nested more than " + std::to_string(kMaxScopeDepth) + " deep");
  scopes_.open();
  scopes_.innermost().callBytes = callBytes_;
}

// Branches whose label is in this scope are resolved; the others look for it further out.
void Parser::closeScope() {
  Function& function = module_.functions[static_cast<size_t>(current_)];
  Scope scope = std::move(scopes_.innermost());
  scopes_.close();
  callBytes_ = scope.callBytes;
  for (PendingLabel& pending : scope.pending) {
    const auto found = scope.names.find(pending.at.text);
    if (found != scope.names.end() && found->second.kind == Name::Kind::Label) {
      const auto target = static_cast<uint32_t>(found->second.index);
      if (pending.table) function.branchTables[pending.owner][pending.slot] = target;
      else function.instructions[pending.owner].operands[pending.slot].label = target;
    } else if (found != scope.names.end()) {
      Lexer::fail(pending.at, "expected a label, got " + Lexer::quote(pending.at));
    } else if (scopes_.depth() <= 2) {  // that was the body; only the header and the module are left
      Lexer::fail(pending.at, "undefined label " + Lexer::quote(pending.at));
    } else {
      scopes_.innermost().pending.push_back(std::move(pending));
    }
  }
}

// One statement; false at the end of the text.
bool Parser::parseStatement() {
  const Token& next = lexer_.peek();
  switch (next.kind) {
    case TokenKind::End:
      return false;
    case TokenKind::Dotted:
      parseBodyDirective();
      return true;
    case TokenKind::Identifier:
      parseInstruction();
      return true;
    default:
      break;
  }
  if (next.is("@")) {
    parseInstruction();
  } else if (next.is("{")) {
    openScope();
    lexer_.take();
  } else if (next.is("}")) {
    lexer_.take();
    closeScope();
  } else if (!lexer_.accept(";")) {
    lexer_.expected("an instruction, a directive or '}'");
  }
  return true;
}

void Parser::parseBodyDirective() {
  if (lexer_.acceptDotted("loc")) return parseLocation();
  if (lexer_.acceptDotted("reg")) return parseRegisters();
  if (lexer_.acceptDotted("pragma")) return skipPragma();
  const bool isExtern = lexer_.acceptDotted("extern");
  if (lexer_.acceptDotted("param")) return parseVariables(Space::Param, isExtern);
  if (lexer_.acceptDotted("local")) return parseVariables(Space::Local, isExtern);
  if (lexer_.acceptDotted("shared")) return parseVariables(Space::Shared, isExtern);
  if (lexer_.acceptDotted("global")) return parseVariables(Space::Global, isExtern);
  if (lexer_.acceptDotted("const")) return parseVariables(Space::Const, isExtern);
  lexer_.expected("an instruction, a declaration, '.loc', '.pragma' or '}'");
}

// .loc 1 12 3 [, function_name $L__info_string0[+16], inlined_at 1 20 5]: the first place is the innermost.
void Parser::parseLocation() {
  auto place = [&](uint16_t& file, uint32_t& line) {
    file = static_cast<uint16_t>(parseInteger("a file number", kMaxFiles));
    line = static_cast<uint32_t>(parseInteger("a line number", UINT32_MAX));
    parseInteger("a column", UINT32_MAX);
  };
  place(cudaFile_, cudaLine_);
  while (lexer_.accept(",")) {
    const Token word = lexer_.take();
    if (word.text == "function_name") {
      lexer_.take();
      parseOffset();
    } else if (word.text == "inlined_at") {
      uint16_t file;
      uint32_t line;
      place(file, line);
    } else {
      Lexer::fail(word, "expected 'function_name' or 'inlined_at', got " + Lexer::quote(word));
    }
  }
}

// After "label:": nothing, or a list that belongs to the label.
void Parser::parseLabelled(const Token& label) {
  Function& function = module_.functions[static_cast<size_t>(current_)];
  if (lexer_.acceptDotted("branchtargets")) {
    const auto index = static_cast<uint32_t>(function.branchTables.size());
    scopes_.declare(label, {Name::Kind::Table, Type::None, static_cast<int32_t>(index)});
    std::vector<uint32_t>& table = function.branchTables.emplace_back();
    do {
      if (lexer_.peek().kind != TokenKind::Identifier) lexer_.expected("a label");
      const Token target = lexer_.take();
      scopes_.innermost().pending.push_back({true, index, static_cast<uint32_t>(table.size()), target});
      table.push_back(0);
    } while (lexer_.accept(","));
    lexer_.expect(";", "',' or ';'");
  } else if (lexer_.acceptDotted("callprototype") || lexer_.acceptDotted("calltargets")) {
    scopes_.declare(label, {Name::Kind::Prototype, Type::None, 0});
    while (!lexer_.peek().is(";")) {
      if (lexer_.peek().kind == TokenKind::End) lexer_.expected("';'");
      lexer_.take();
    }
    lexer_.take();
  } else {
    scopes_.declare(label, {Name::Kind::Label, Type::None, static_cast<int32_t>(function.instructions.size())});
  }
}

// [label:] or [@[!]p] opcode.modifier… operands;
void Parser::parseInstruction() {
  const size_t begin = lexer_.nextOffset();
  Instruction instruction;
  instruction.line = lexer_.peek().line;
  if (lexer_.accept("@")) {
    instruction.guardNegated = lexer_.accept("!");
    if (lexer_.peek().kind != TokenKind::Identifier) lexer_.expected("a predicate register");
    const Token guard = lexer_.take();
    Name* name = scopes_.find(guard.text);
    if (!name || name->kind != Name::Kind::Register)
      Lexer::fail(guard, "expected a predicate register, got " + Lexer::quote(guard));
    if (name->type != Type::Pred)
      Lexer::fail(guard, "expected a predicate register, got " + Lexer::quote(guard) + " of another type");
    Operand operand;
    useRegister(operand, *name, guard.text);
    instruction.guard = operand.reg;
    if (lexer_.peek().kind != TokenKind::Identifier) lexer_.expected("an instruction");
  }
  const Token opcode = lexer_.take();
  if (instruction.guard < 0 && lexer_.accept(":")) return parseLabelled(opcode);
  if (opcode.text[0] == '%' || opcode.text[0] == '$')
    Lexer::fail(opcode, "expected an instruction or a label, got " + Lexer::quote(opcode));
  if (++instructions_ > kMaxInstructions)
    Lexer::fail(opcode, "the module has more than " + std::to_string(kMaxInstructions) + " instructions");
  instruction.opcode = std::string(opcode.text);
  while (lexer_.peek().kind == TokenKind::Dotted) instruction.modifiers.emplace_back(lexer_.take().text);
  if (!lexer_.peek().is(";")) {
    if (instruction.opcode == "call") parseCall(instruction);
    else parseOperands(instruction);
  } else if (instruction.opcode == "call" || instruction.opcode == "bra") {
    lexer_.expected("a target");
  }
  const size_t end = lexer_.lastEnd();
  lexer_.expect(";", instruction.opcode == "call" ? "';'" : "',' or ';'");
  instruction.text = instructionText(begin, end);
  instruction.cudaLine = cudaLine_;
  instruction.cudaFile = cudaFile_;
  module_.functions[static_cast<size_t>(current_)].instructions.push_back(std::move(instruction));
}

void Parser::parseOperands(Instruction& instruction) {
  const bool branch = instruction.opcode == "bra", indexed = instruction.opcode == "brx";
  do {
    const auto slot = static_cast<uint32_t>(instruction.operands.size());
    if (branch || (indexed && slot == 1)) branchTo(instruction.operands.emplace_back(), slot);
    else instruction.operands.push_back(parseOperand());
  } while (lexer_.accept(","));
}

// The target of bra (a label, perhaps further down) or of brx.idx (a table declared above).
void Parser::branchTo(Operand& operand, uint32_t slot) {
  if (lexer_.peek().kind != TokenKind::Identifier) lexer_.expected("a label");
  const Token target = lexer_.take();
  const Name* name = scopes_.find(target.text);
  if (name && name->kind == Name::Kind::Table) {
    operand.kind = Operand::Kind::Table;
    operand.label = static_cast<uint32_t>(name->index);
    return;
  }
  operand.kind = Operand::Kind::Label;
  const size_t index = module_.functions[static_cast<size_t>(current_)].instructions.size();
  scopes_.innermost().pending.push_back({false, static_cast<uint32_t>(index), slot, target});
}

// call[.uni] [(returns),] target [, (arguments)] [, prototype];
void Parser::parseCall(Instruction& instruction) {
  Operand returns, target, arguments;
  returns.kind = arguments.kind = Operand::Kind::Vector;
  if (lexer_.peek().is("(")) {
    returns = parseCallList();
    lexer_.expect(",");
  }
  const Token name = lexer_.peek();
  if (name.kind != TokenKind::Identifier) lexer_.expected("a function");
  target = parseNamed();
  if (target.kind != Operand::Kind::Function && target.kind != Operand::Kind::Register)
    Lexer::fail(name, "expected a function, got " + Lexer::quote(name));
  const bool more = lexer_.accept(",");
  bool prototype = more;
  if (more && lexer_.peek().is("(")) {
    arguments = parseCallList();
    prototype = lexer_.accept(",");
  }
  instruction.operands.push_back(std::move(returns));
  instruction.operands.push_back(std::move(target));
  instruction.operands.push_back(std::move(arguments));
  if (!prototype) return;
  if (lexer_.peek().kind != TokenKind::Identifier) lexer_.expected("a call prototype");
  const Token label = lexer_.take();
  const Name* known = scopes_.find(label.text);
  if (!known || known->kind != Name::Kind::Prototype)
    Lexer::fail(label, "undeclared call prototype " + Lexer::quote(label));
  Operand& text = instruction.operands.emplace_back();
  text.kind = Operand::Kind::Text;
  text.name = std::string(label.text);
}

Operand Parser::parseCallList() {
  Operand list;
  list.kind = Operand::Kind::Vector;
  lexer_.expect("(");
  if (lexer_.accept(")")) return list;
  do {
    if (list.elements.size() == kMaxVectorElements)
      Lexer::fail(lexer_.peek(), "a call has more than " + std::to_string(kMaxVectorElements) + " arguments");
    list.elements.push_back(parseOperand(true));
  } while (lexer_.accept(","));
  lexer_.expect(")", "',' or ')'");
  return list;
}

// The source text with blanks collapsed and long operand lists cut.
std::string Parser::instructionText(size_t begin, size_t end) const {
  std::string text;
  bool blank = false;
  for (size_t i = begin; i < end; ++i) {
    const char c = lexer_.source()[i];
    if (static_cast<unsigned char>(c) <= ' ') {
      blank = !text.empty();
      continue;
    }
    if (text.size() >= kMaxTextLength) return text + " …";
    if (blank) text += ' ';
    blank = false;
    text += c;
  }
  return text;
}

}  // namespace ktl::ptx
