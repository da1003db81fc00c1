// Findings: what the virtual device reports instead of silence.
// A finding stops the launch when `fatal`; the device stays usable.
#pragma once
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace ktl {

// The numeric part of the KTL50xx codes. One table: the texts live in grammar/catalogue.
enum class Code : int {
  OutOfBounds = 5001,        // global, const, param or local access outside every allocation
  SharedOutOfBounds = 5002,  // shared or distributed-shared access outside the CTA's window
  Misaligned = 5003,
  Uninitialised = 5004,      // uninitialised smem/TMEM/register value reached an output, address or branch
  Hang = 5005,               // no warp can progress and no asynchronous work is left
  BarrierProtocol = 5006,    // over-arrival, tx-count overflow, arrive on a dead or count-0 barrier
  BarrierBytes = 5007,       // expect_tx and delivered bytes do not match
  TmemLeak = 5008,
  TmemAccess = 5009,         // outside the allocation, after dealloc, wrong lane quarter
  Descriptor = 5010,         // illegal shared-memory or instruction descriptor
  TensorMap = 5011,          // illegal tensor map, box start or rank
  UnknownInstruction = 5012,
  PtxSyntax = 5013,
  Budget = 5014,             // instruction budget exceeded
  Divergence = 5015,         // .aligned instruction executed by a partial warp that cannot reconverge
  Trap = 5016,
  OutOfMemory = 5017,
  Cancelled = 5018,
  Race = 5019,
  LaunchConfig = 5020,
  InvalidFree = 5021,
  BarrierReuse = 5022,       // init of a live barrier, smem of a barrier overwritten
  AsyncInFlight = 5023,      // a CTA or the kernel exits with asynchronous work it never waited for
  UnsupportedCall = 5024,    // printf, malloc, … named
  IndexOutside = 5025,       // a position or group end read from memory leaves its tensor (pmevent 7)
  ScatterTwice = 5026,       // two stores at places read from memory (pmevent 6) write one byte
  SparseMetadata = 5027,     // metadata of a sparse operand names no places
};

struct Finding {
  Code code;
  bool fatal = true;
  bool remark = false;           // a rule that this program breaks without harm
  std::string message;           // one sentence with the values: addresses, parities, byte counts
  std::array<uint32_t, 3> cta{}; // ctaid
  int32_t warp = -1;             // warp within the CTA, -1: none
  int32_t lane = -1;
  uint32_t ptxLine = 0;          // 1-based line in the PTX text
  uint32_t cudaLine = 0;         // from .loc, 0: unknown
  std::string cudaFile;
  std::string function;          // entry
  std::string instruction;       // its PTX text
  std::vector<std::string> notes; // e.g. one line per waiting warp of a hang
  uint64_t count = 1;            // equal findings (same code, line, role) are merged
};

// Thrown inside the device; the launch turns it into a Finding with CTA, warp and line filled in.
struct Fault {
  Code code;
  std::string message;
};

// As messages show addresses.
inline std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace ktl
