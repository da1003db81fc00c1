// Memory of the virtual device: global allocations with bounds, and each CTA's shared window.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>
#include "findings.h"

namespace ktl {

// Addresses look like those of a driver, and never meet the generic windows of shared and local memory,
// which start at 2^56.
constexpr uint64_t kGlobalBase = 0x7f0000000000;
constexpr uint64_t kLowestAddress = 0x1000000;       // below: null pointers with offsets, function addresses
constexpr uint64_t kGlobalEnd = uint64_t{1} << 56;
constexpr uint64_t kAllocationAlign = 256;           // as cudaMalloc
constexpr uint64_t kGridWorkspace = kGlobalEnd + 0x4'0000'0000;  // of cooperative launches; above the generic windows
constexpr uint64_t kGuardBytes = 4096;               // unmapped bytes between allocations, at least
constexpr uint32_t kReservedSharedBytes = 0x400;     // at the start of each CTA's window: the system's own

// Whether [offset, offset + bytes) lies within [0, size), whatever the three are.
constexpr bool contains(uint64_t size, uint64_t offset, uint64_t bytes) {
  return bytes <= size && offset <= size - bytes;
}

// One cudaMalloc-like allocation; zero-filled, so that results never depend on the host.
struct Allocation {
  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  uint64_t base = 0;
  uint64_t bytes = 0;
  std::unique_ptr<uint8_t[], Free> data;
};

// Sorted, immutable view of the live allocations: a launch takes one at its start, so malloc/free on the JS
// thread never races with execution and a freed buffer lives until the launch ends.
class GlobalView {
 public:
  explicit GlobalView(std::vector<std::shared_ptr<Allocation>> sorted, uint64_t freeBytes = UINT64_MAX);
  // Pointer to [address, address+bytes) or nullptr when it is not wholly inside one allocation.
  uint8_t* find(uint64_t address, uint64_t bytes) const;
  // With one more, whose base is above all others.
  std::shared_ptr<const GlobalView> with(std::shared_ptr<Allocation> last) const;
  // The allocation that contains this byte, or nullptr: for callers that keep the last one they used.
  const Allocation* containing(uint64_t address) const;
  // "37 bytes past the end of the 4096-byte allocation at 0x…" for messages.
  std::string describe(uint64_t address, uint64_t bytes) const;
  uint64_t freeBytes() const { return freeBytes_; }  // of the device's memory, when the view was taken

 private:
  std::vector<std::shared_ptr<Allocation>> allocations_;
  uint64_t freeBytes_;
};

// The allocator. Thread-safe. Addresses are never reused, so a stale pointer is found, not misread.
class GlobalMemory {
 public:
  explicit GlobalMemory(uint64_t capacity);
  // `at` 0: anywhere. Addresses are multiples of `align` (0 or a power of two) and of 256. Throws Fault
  // OutOfMemory, also for an address that is taken or unfit.
  uint64_t allocate(uint64_t bytes, uint64_t at, uint32_t align);
  // Address 0 is ignored, as by cudaFree. Throws Fault InvalidFree.
  void release(uint64_t address);
  // Throw Fault OutOfBounds. `what` ("read", "write") begins the message.
  void checkRange(const char* what, uint64_t address, uint64_t bytes) const { resolve(what, address, bytes); }
  void write(uint64_t address, const uint8_t* data, uint64_t bytes);
  void read(uint64_t address, uint8_t* data, uint64_t bytes);
  std::shared_ptr<const GlobalView> view() const;
  uint64_t allocatedBytes() const;
  uint64_t allocations() const;
  uint64_t capacity() const { return capacity_; }

 private:
  uint64_t findSpace(uint64_t extent, uint64_t align) const;
  const Allocation* overlapping(uint64_t address, uint64_t extent) const;
  uint8_t* resolve(const char* what, uint64_t address, uint64_t bytes) const;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Allocation>> live_;
  std::set<uint64_t> released_;  // some of the addresses released, for the message of a second free
  uint64_t capacity_, used_ = 0, next_ = kGlobalBase;
  mutable std::shared_ptr<const GlobalView> cached_;
};

// The shared memory of one CTA. Addresses are absolute shared::cta offsets without the rank bits (bits 24+):
// byte `a` lives at bytes[a]; 0…0x3ff is the reserved first KiB, user data starts at 0x400. valid[a] = 1 once byte a
// was written since launch.
struct SharedMemory {
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> valid;
  uint32_t size() const { return static_cast<uint32_t>(bytes.size()); }
  // Whether these bytes are the kernel's own.
  bool holds(uint64_t offset, uint64_t count) const {
    return offset >= kReservedSharedBytes && contains(bytes.size(), offset, count);
  }
};

}  // namespace ktl
