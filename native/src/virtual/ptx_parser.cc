// Module scope of PTX: header directives, variables, functions and their headers.
#include "ptx_parser.h"
#include <algorithm>

namespace ktl::ptx {

const Function* Module::entry(const std::string& name) const {
  for (const Function& function : functions)
    if (function.isEntry && function.name == name) return &function;
  return nullptr;
}

std::unique_ptr<Module> parse(std::string source) {
  auto module = std::make_unique<Module>();
  module->source = std::move(source);
  if (module->source.size() > kMaxSourceBytes)
    throw Fault{Code::PtxSyntax, "line 1, column 1: the PTX text is larger than " +
                                     std::to_string(kMaxSourceBytes >> 20) + " MiB"};
  Parser(*module).parseModule();
  layoutShared(*module);
  return module;
}

Parser::Parser(Module& module) : module_(module), lexer_(module.source) {}

void Parser::parseModule() {
  scopes_.open();
  parseHeader();
  while (lexer_.peek().kind != TokenKind::End) parseTopLevel();
  for (const Variable& variable : module_.variables)
    if (variable.isExtern && variable.space != Space::Shared) {
      Token at;
      at.line = variable.line;
      Lexer::fail(at, "the .extern variable '" + variable.name.substr(0, 40) +
                          "' has no definition in this module");
    }
}

// .version 9.0  .target sm_100a, debug  .address_size 64
void Parser::parseHeader() {
  if (!lexer_.acceptDotted("version")) lexer_.expected("'.version'");
  if (lexer_.peek().kind != TokenKind::Float) lexer_.expected("a version such as 9.0");
  module_.version = std::string(lexer_.take().text);
  if (!lexer_.acceptDotted("target")) lexer_.expected("'.target'");
  do {
    if (lexer_.peek().kind != TokenKind::Identifier) lexer_.expected("a target such as sm_100a");
    const Token target = lexer_.take();
    if (target.text.starts_with("sm_")) module_.target = std::string(target.text);
  } while (lexer_.accept(","));
  if (module_.target.empty()) lexer_.expected("a target such as sm_100a before");
  if (lexer_.acceptDotted("address_size") &&
      (lexer_.peek().kind != TokenKind::Integer || lexer_.take().bits != 64))
    lexer_.expected("address size 64 before");
}

void Parser::parseTopLevel() {
  const Token token = lexer_.peek();
  bool isExtern = false;
  for (;;) {
    if (lexer_.acceptDotted("extern")) isExtern = true;
    else if (!lexer_.acceptDotted("visible") && !lexer_.acceptDotted("weak") && !lexer_.acceptDotted("common"))
      break;
  }
  if (lexer_.acceptDotted("entry")) return parseFunction(true, isExtern);
  if (lexer_.acceptDotted("func")) return parseFunction(false, isExtern);
  if (lexer_.acceptDotted("global")) return parseVariables(Space::Global, isExtern);
  if (lexer_.acceptDotted("const")) return parseVariables(Space::Const, isExtern);
  if (lexer_.acceptDotted("shared")) return parseVariables(Space::Shared, isExtern);
  if (lexer_.acceptDotted("local")) return parseVariables(Space::Local, isExtern);
  if (lexer_.acceptDotted("param")) return parseVariables(Space::Param, isExtern);
  if (token.line == lexer_.peek().line && token.column == lexer_.peek().column) {
    if (lexer_.acceptDotted("file")) return parseFile();
    if (lexer_.acceptDotted("section")) return skipSection();
    if (lexer_.acceptDotted("pragma")) return skipPragma();
  }
  lexer_.expected("a variable, '.func', '.entry' or another module directive");
}

// .file 1 "a.cu" [, timestamp, size]
void Parser::parseFile() {
  const uint64_t index = parseInteger("a file number", kMaxFiles);
  if (lexer_.peek().kind != TokenKind::String) lexer_.expected("a file name");
  if (module_.files.size() <= index) module_.files.resize(index + 1);
  module_.files[index] = std::string(lexer_.take().text);
  while (lexer_.accept(",")) parseInteger("a number", UINT64_MAX);
}

// Debug sections hold no code: data directives, labels and differences of labels in one pair of braces.
void Parser::skipSection() {
  if (lexer_.peek().kind != TokenKind::Dotted && lexer_.peek().kind != TokenKind::Identifier)
    lexer_.expected("a section name");
  lexer_.take();
  lexer_.expect("{");
  while (!lexer_.peek().is("}")) {
    if (lexer_.peek().kind == TokenKind::End) lexer_.expected("'}' at the end of the section");
    lexer_.take();
  }
  lexer_.take();
}

void Parser::skipPragma() {
  do {
    if (lexer_.peek().kind != TokenKind::String) lexer_.expected("a string");
    lexer_.take();
  } while (lexer_.accept(","));
  lexer_.expect(";");
}

// The function's index; a body may follow declarations of the same name.
int32_t Parser::declareFunction(const Token& name, bool isEntry) {
  const Name* known = scopes_.find(name.text);
  if (known && known->kind == Name::Kind::Function) {
    Function& function = module_.functions[static_cast<size_t>(known->index)];
    if (function.isEntry != isEntry)
      Lexer::fail(name, Lexer::quote(name) + " is declared both as .entry and as .func");
    if (function.hasBody) Lexer::fail(name, "the function " + Lexer::quote(name) + " is defined twice");
    return known->index;
  }
  const auto index = static_cast<int32_t>(module_.functions.size());
  scopes_.declare(name, {Name::Kind::Function, Type::None, index});
  Function& function = module_.functions.emplace_back();
  function.name = std::string(name.text);
  function.isEntry = isEntry;
  function.line = name.line;
  return index;
}

// [.attribute(…)] [(returns)] name [(parameters)] directives, then ; or a body.
void Parser::parseFunction(bool isEntry, bool isExtern) {
  const size_t variables = module_.variables.size();
  // Return parameters come before the name: parse them into a scratch function, then move them over.
  const auto scratch = static_cast<int32_t>(module_.functions.size());
  module_.functions.emplace_back();
  scopes_.open();
  std::vector<int32_t> returns;
  if (!isEntry && lexer_.peek().is("(")) returns = parseParameters(scratch);
  const uint32_t returnBytes = module_.functions.back().paramBytes;
  module_.functions.pop_back();
  Scope header = std::move(scopes_.innermost());
  scopes_.close();

  const Token name = lexer_.peek();
  if (name.kind != TokenKind::Identifier) lexer_.expected("a function name");
  lexer_.take();
  const int32_t index = declareFunction(name, isEntry);
  scopes_.open();
  scopes_.innermost() = std::move(header);
  {
    Function& function = module_.functions[static_cast<size_t>(index)];
    function.paramBytes = 0;
    function.line = name.line;
  }
  std::vector<int32_t> params;
  if (lexer_.peek().is("(")) params = parseParameters(index);
  Function& function = module_.functions[static_cast<size_t>(index)];
  parseFunctionDirectives(function);

  if (lexer_.peek().is("{") && !isExtern) {
    uint64_t base = returns.empty() ? function.paramBytes : alignUp(function.paramBytes, 16);
    for (int32_t variable : returns) {
      module_.variables[static_cast<size_t>(variable)].function = index;
      module_.variables[static_cast<size_t>(variable)].offset += base;
    }
    function.paramBytes = static_cast<uint32_t>(base + returnBytes);
    function.params = std::move(params);
    function.returns = std::move(returns);
    function.hasBody = true;
    parseBody(index);
  } else {
    lexer_.expect(";", isExtern ? "';'" : "'{' or ';'");
    module_.variables.resize(variables);  // a declaration's parameter names mean nothing
    function.paramBytes = 0;
  }
  scopes_.close();
}

std::vector<int32_t> Parser::parseParameters(int32_t function) {
  std::vector<int32_t> params;
  lexer_.expect("(");
  if (lexer_.accept(")")) return params;
  do params.push_back(parseParameter(function));
  while (lexer_.accept(","));
  lexer_.expect(")", "',' or ')'");
  return params;
}

// Up to three numbers; those left out are 1.
void Parser::parseExtents(uint32_t (&extents)[3]) {
  extents[0] = extents[1] = extents[2] = 1;
  size_t i = 0;
  do {
    if (i == 3) lexer_.expected("at most three numbers before");
    extents[i++] = static_cast<uint32_t>(parseInteger("a number", INT32_MAX));
  } while (lexer_.accept(","));
}

void Parser::parseFunctionDirectives(Function& function) {
  auto number = [&] { return static_cast<uint32_t>(parseInteger("a number", INT32_MAX)); };
  while (lexer_.peek().kind == TokenKind::Dotted) {
    const Token directive = lexer_.take();
    const std::string_view name = directive.text;
    if (name == "maxntid") {
      uint32_t extents[3];
      parseExtents(extents);
      const uint64_t threads = std::min<uint64_t>(uint64_t{extents[0]} * extents[1], UINT32_MAX) * extents[2];
      function.maxThreads = static_cast<uint32_t>(std::min<uint64_t>(threads, UINT32_MAX));
    } else if (name == "reqntid") {
      parseExtents(function.requiredThreads);
    } else if (name == "reqnctapercluster") {
      parseExtents(function.requiredCluster);
    } else if (name == "maxnreg") {
      function.maxRegisters = number();
    } else if (name == "minnctapersm") {
      function.minCtasPerSm = number();
    } else if (name == "maxclusterrank") {
      function.maxClusterRank = number();
    } else if (name == "explicitcluster") {
      function.explicitCluster = true;
    } else if (name == "maxnctapersm" || name == "abi_preserve" || name == "abi_preserve_control") {
      number();
    } else if (name == "pragma") {
      skipPragma();
    } else if (name == "blocksareclusters") {
      function.blocksAreClusters = true;
    } else if (name != "noreturn") {
      Lexer::fail(directive, "expected a function directive, '{' or ';', got " + Lexer::quote(directive));
    }
  }
}

}  // namespace ktl::ptx
