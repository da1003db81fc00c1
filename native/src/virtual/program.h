// A parsed PTX module: names resolved, nothing interpreted. The machine decodes it once into micro-operations.
// The parser knows PTX's grammar, not its instruction set: an unknown opcode is a decode-time finding.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ktl::ptx {

enum class Type : uint8_t {
  None, Pred, B8, B16, B32, B64, B128, U8, U16, U32, U64, S8, S16, S32, S64, F16, F16x2, BF16, BF16x2, F32, F64,
};

enum class Space : uint8_t { Generic, Reg, Const, Global, Local, Param, Shared };

struct Operand {
  enum class Kind : uint8_t {
    Register,   // reg
    Immediate,  // bits: integers as two's complement 64 bit; 0f literals as f32 bits (isFloat), 0d and decimal
                // literals as f64 bits (isFloat and isDouble)
    Address,    // [reg + offset] or [symbol + offset] or [offset]; see base
    Symbol,     // a variable's name used as a value (mov.u64 %rd, smem), plus offset
    Vector,     // elements
    Label,      // branch target: label is an index into Function::instructions (may be one past the last)
    Special,    // %tid.x …: name
    Sink,       // _
    Function,   // call target or its address: name, and symbol = index into Module::functions
    Tensor,     // [reg, {c0, c1, …}]: elements[0] = the map address operand, elements[1..] = coordinates
    Pair,       // p|q: elements[0], elements[1]
    Text,       // anything else, verbatim (a call prototype's name)
    Table,      // brx.idx: label is an index into Function::branchTables
  };
  Kind kind = Kind::Sink;
  bool negated = false;   // !p
  bool isFloat = false;   // Immediate written 0f… / 0d… / decimal point
  bool isDouble = false;  // Immediate whose bits are an f64
  int32_t reg = -1;       // Register, Address base: dense index into Function::registers
  int32_t symbol = -1;    // Symbol, Address base: index into Module::variables; Function: into Module::functions
  int64_t offset = 0;     // Address, Symbol
  uint64_t bits = 0;      // Immediate
  uint32_t label = 0;     // Label, Table
  std::string name;       // Special, Function, Text
  std::vector<Operand> elements;
};

// A call has exactly three or four operands: Vector of returns (maybe empty), target (Function or Register),
// Vector of arguments (maybe empty), and for an indirect call the Text of its prototype or target list.
struct Instruction {
  std::string opcode;                  // "tcgen05.mma" is opcode "tcgen05" with modifiers "mma", …: split at every '.'
  std::vector<std::string> modifiers;  // without the dot; "::" parts stay together ("shared::cta")
  std::vector<Operand> operands;       // in source order, destination first
  int32_t guard = -1;                  // predicate register or -1
  bool guardNegated = false;
  uint32_t line = 0;                   // PTX line, 1-based
  uint32_t cudaLine = 0;               // innermost .loc, 0: none
  uint16_t cudaFile = 0;               // index into Module::files
  std::string text;                    // source text for reports (blanks collapsed, long lists cut)
};

// Only registers that an instruction names: `.reg .b32 %r<100000>` costs nothing.
struct Register {
  std::string name;
  Type type = Type::None;
};

// Part of an initialiser that is an address, known only when the module is loaded:
// bytes [offset, offset+bytes) = (address(symbol or function) + addend) >> shift, little-endian.
struct Relocation {
  uint64_t offset = 0;
  uint32_t bytes = 8;
  uint32_t shift = 0;
  int32_t symbol = -1;    // index into Module::variables …
  int32_t function = -1;  // … or into Module::functions
  int64_t addend = 0;
};

// The address a function has when it is stored in memory or moved to a register: never that of an allocation.
constexpr uint64_t functionAddress(int32_t index) { return 0x10000u + 16u * static_cast<uint64_t>(index); }

struct Variable {
  std::string name;
  Space space = Space::Global;
  Type type = Type::B8;
  uint32_t align = 1;
  uint64_t bytes = 0;         // 0 for extern .shared arrays (dynamic shared memory)
  bool isExtern = false;
  std::vector<uint8_t> init;  // the first bytes; the rest is zero
  std::vector<Relocation> relocations;
  int32_t function = -1;      // owner, -1: module scope
  // Param: byte offset in the function's parameter block (for a .param of a body: in its call block); Local: in
  // the function's local block; Shared: shared::cta address, from 0x400 up (extern: see dynamicSharedOffset).
  uint64_t offset = 0;
  uint32_t line = 0;
};

struct Function {
  std::string name;
  bool isEntry = false;
  bool hasBody = false;                // false: declared only (vprintf, …)
  std::vector<Register> registers;
  std::vector<Instruction> instructions;
  std::vector<std::vector<uint32_t>> branchTables;  // .branchtargets: instruction indices
  std::vector<int32_t> params;         // variable indices in order (Space::Param)
  std::vector<int32_t> returns;        // device functions: return parameters, laid out after params
  uint32_t paramBytes = 0;             // params and returns
  uint32_t callBytes = 0;              // .param variables declared in the body, for its calls
  uint32_t localBytes = 0;             // .local variables incl. depot
  uint32_t staticSharedBytes = 0;      // of all static .shared variables that it or its callees use
  uint32_t dynamicSharedOffset = 0x400;  // entries: where extern .shared arrays begin
  uint32_t maxThreads = 0;             // .maxntid product, 0: none
  uint32_t maxRegisters = 0;           // .maxnreg, 0: none
  uint32_t minCtasPerSm = 0;           // .minnctapersm, 0: none
  uint32_t maxClusterRank = 0;         // .maxclusterrank, 0: none
  bool explicitCluster = false;        // .explicitcluster: must be launched with a cluster shape
  bool blocksAreClusters = false;      // .blocksareclusters: the grid is given in clusters
  uint32_t requiredThreads[3] = {0, 0, 0};  // .reqntid
  uint32_t requiredCluster[3] = {0, 0, 0};  // .reqnctapercluster
  uint32_t line = 0;
};

struct Module {
  std::string version, target;         // "9.0", "sm_100a"
  std::vector<std::string> files;      // .file table
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::string source;
  const Function* entry(const std::string& name) const;
};

constexpr uint32_t kSharedBase = 0x400;         // kReservedSharedBytes of memory.h
constexpr uint32_t kMaxSharedBytes = 232448;    // static and dynamic, per CTA (sm_90, sm_100)
constexpr uint32_t kMaxStaticSharedBytes = 49152;
constexpr uint32_t kMaxParamBytes = 32764;
constexpr uint32_t kMaxLocalBytes = 512 * 1024;

// Throws ktl::Fault{Code::PtxSyntax} whose message starts with "line L, column C: ".
std::unique_ptr<Module> parse(std::string source);

}  // namespace ktl::ptx
