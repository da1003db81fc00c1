// The PTX parser: recursive descent over the Lexer, one file per part of the grammar:
// ptx_parser.cc module and function headers, ptx_parser_variables.cc declarations and initialisers,
// ptx_parser_body.cc statements and operands, ptx_constant.cc constant expressions, ptx_layout.cc shared memory.
#pragma once
#include <string_view>
#include <vector>
#include "program.h"
#include "ptx_constant.h"
#include "ptx_lexer.h"
#include "ptx_scope.h"

namespace ktl::ptx {

// What untrusted text may cost. The largest real modules have some 10^5 instructions.
constexpr size_t kMaxSourceBytes = 64u << 20;
constexpr size_t kMaxScopeDepth = 64;
constexpr size_t kMaxInstructions = 2'000'000;
constexpr size_t kMaxOperands = 8'000'000;
constexpr size_t kMaxVectorElements = 256;
constexpr size_t kMaxFiles = 65535;
constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 40;
constexpr uint64_t kMaxAlign = 1 << 16;
constexpr uint64_t kMaxInitialisedBytes = uint64_t{1} << 28;  // up to the last value other than 0, of all variables

struct TypeInfo {
  std::string_view name;
  Type type;
  uint32_t bytes;  // 0: a register type only
};
const TypeInfo* findType(std::string_view name);

inline uint64_t alignUp(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

// Special registers exist without declaration (PTX ISA 10).
bool isSpecialRegister(std::string_view name);

class Parser {
 public:
  explicit Parser(Module& module);
  void parseModule();

 private:
  // Module scope (ptx_parser.cc)
  void parseHeader();
  void parseTopLevel();
  void parseFile();
  void skipSection();
  void skipPragma();
  void parseFunction(bool isEntry, bool isExtern);
  std::vector<int32_t> parseParameters(int32_t function);
  void parseFunctionDirectives(Function& function);
  void parseExtents(uint32_t (&extents)[3]);
  int32_t declareFunction(const Token& name, bool isEntry);

  // Variables (ptx_parser_variables.cc)
  const TypeInfo& parseType();
  uint64_t parseInteger(std::string_view what, uint64_t max);
  uint32_t parseAlign();
  void parseRegisters();
  void parseVariables(Space space, bool isExtern);
  int32_t parseParameter(int32_t function);
  Variable parseVariablePrefix(Space space, uint32_t& elementBytes);
  std::vector<uint64_t> parseArrayShape(Variable& variable, uint32_t elementBytes);
  void parseInitialiser(Variable& variable, const TypeInfo& type, const std::vector<uint64_t>& shape);
  uint64_t parseInitialiserRow(Variable& variable, const TypeInfo& type, const std::vector<uint64_t>& shape,
                               size_t level, uint64_t start);
  void parseInitialiserElement(Variable& variable, const TypeInfo& type, uint64_t at);
  void parseAddressConstant(Variable& variable, uint64_t at, uint32_t bytes, uint32_t shift);
  void storeConstant(Variable& variable, uint64_t at, const TypeInfo& type, const Constant& value,
                     const Token& token);
  int32_t addVariable(const Token& name, Variable variable);
  void placeInFunction(Variable& variable, const Token& name);

  // Bodies (ptx_parser_body.cc)
  void parseBody(int32_t function);
  bool parseStatement();
  void openScope();
  void closeScope();
  void parseBodyDirective();
  void parseLocation();
  void parseLabelled(const Token& label);
  void parseInstruction();
  void parseOperands(Instruction& instruction);
  void parseCall(Instruction& instruction);
  Operand parseCallList();
  void branchTo(Operand& operand, uint32_t slot);
  Operand parseOperand(bool inVector = false);
  Operand parseNamed();
  Operand parseConstantOperand();
  Operand parseVector();
  Operand parseAddress();
  int64_t parseOffset();
  void useRegister(Operand& operand, Name& name, std::string_view text);
  std::string instructionText(size_t begin, size_t end) const;

  Module& module_;
  Lexer lexer_;
  Scopes scopes_;
  int32_t current_ = -1;         // function whose body or parameters are being parsed
  uint32_t callBytes_ = 0;       // of the call block in use by the open scopes
  uint32_t cudaLine_ = 0;
  uint16_t cudaFile_ = 0;
  size_t instructions_ = 0, operands_ = 0;
  uint64_t initialised_ = 0;
};

// Gives every static .shared variable its address, and every function its shared-memory size (ptx_layout.cc).
void layoutShared(Module& module);

}  // namespace ktl::ptx
