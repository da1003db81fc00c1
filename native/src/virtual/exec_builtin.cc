#include "exec_builtin.h"
#include "address.h"
#include "print_format.h"

namespace ktl {
namespace {

constexpr uint32_t kMostText = 4096;             // characters of a format or a string
constexpr size_t kMostPrinted = size_t{1} << 24;  // bytes that a cluster may print
constexpr uint32_t kArgumentBytes = 32 * 8;       // 32 arguments at most (CUDA C++ Programming Guide, "Limitations")

uint8_t* localOf(Warp& w, uint32_t lane) { return w.local.data() + uint64_t{lane} * w.code->localBytes; }

// The k-th argument of a call.
uint64_t argument(Warp& w, const Op& op, uint32_t lane, uint32_t k) {
  uint64_t value = 0;
  if (k * 3 + 2 < op.listCount) {
    const uint32_t* part = &w.code->lists[op.list + k * 3];
    std::memcpy(&value, localOf(w, lane) + part[0], std::min<uint32_t>(8, part[2]));
  }
  return value;
}

// Bytes at a generic address.
const uint8_t* genericAt(Warp& w, uint32_t lane, uint64_t address, uint32_t bytes) {
  const uint64_t offset = address & ~kWindowMask;
  if ((address & kWindowMask) == kLocalWindow) {
    if (contains(w.code->localBytes, offset, bytes)) return localOf(w, lane) + offset;
    throw Fault{Code::OutOfBounds, std::to_string(bytes) + " bytes at local address " + hex(offset) + " of " +
                                       std::to_string(w.code->localBytes) + " bytes"};
  }
  if ((address & kWindowMask) == kSharedWindow) {
    uint32_t at = 0;
    const Cta& cta = sharedAt(*w.cta, static_cast<uint32_t>(offset), bytes, true, at);
    return cta.shared.bytes.data() + at;
  }
  return globalAt(w, address, bytes, false);
}

// A C string; a longer one is cut.
std::string textAt(Warp& w, uint32_t lane, uint64_t address) {
  std::string text;
  while (text.size() < kMostText) {
    const char next = static_cast<char>(*genericAt(w, lane, address + text.size(), 1));
    if (next == 0) break;
    text += next;
  }
  return text;
}

// vprintf(format, arguments): how many arguments were taken, -1 without a format.
Flow print(Warp& w, const Op& op, uint32_t mask) {
  forLanes(mask, [&](uint32_t lane) {
    w.faultLane = lane;
    const uint64_t format = argument(w, op, lane, 0), arguments = argument(w, op, lane, 1);
    int32_t taken = -1;
    if (format != 0) {
      const PrintArguments given{
          [&](uint32_t offset, void* value, uint32_t bytes) {
            if (offset + bytes > kArgumentBytes) throw Fault{Code::OutOfBounds, "printf takes at most 32 arguments"};
            std::memcpy(value, genericAt(w, lane, arguments + offset, bytes), bytes);
          },
          [&](uint64_t address) { return address == 0 ? "(null)" : textAt(w, lane, address); }};
      std::string text;
      taken = formatPrint(textAt(w, lane, format), given, text);
      std::string& printed = w.cta->cluster->printed;
      if (printed.size() < kMostPrinted) {
        printed += text;
        if (printed.size() >= kMostPrinted) printed += "\n(what else this cluster prints is left out)\n";
      }
    }
    if (op.aux != ~0u) std::memcpy(localOf(w, lane) + op.aux, &taken, sizeof taken);
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

// __assertfail(message, file, line, function, character size)
Flow assertFail(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t lane = static_cast<uint32_t>(std::countr_zero(mask));
  w.faultLane = lane;
  const auto text = [&](uint32_t k) { return textAt(w, lane, argument(w, op, lane, k)); };
  throw Fault{Code::Trap, "assertion failed: " + text(0) + " (" + text(1) + ":" +
                              std::to_string(static_cast<uint32_t>(argument(w, op, lane, 2))) + ", " + text(3) + ")"};
}

}  // namespace

Handler builtinOf(const std::string& name) {
  return name == "vprintf" ? &print : name == "__assertfail" ? &assertFail : nullptr;
}

}  // namespace ktl
