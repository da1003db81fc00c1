#include "memory.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace ktl {
namespace {

constexpr size_t kReleasedKept = 4096;
constexpr uint64_t kNear = 1 << 20;  // beyond, the nearest allocation says nothing about the mistake

std::string count(uint64_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes"); }

std::string name(const Allocation& allocation) {
  return "the " + std::to_string(allocation.bytes) + "-byte allocation at " + hex(allocation.base);
}

// The first allocation whose base is above the address.
auto firstAbove(const std::vector<std::shared_ptr<Allocation>>& sorted, uint64_t address) {
  const auto below = [](uint64_t value, const auto& allocation) { return value < allocation->base; };
  return std::upper_bound(sorted.begin(), sorted.end(), address, below);
}

}  // namespace

GlobalView::GlobalView(std::vector<std::shared_ptr<Allocation>> sorted, uint64_t freeBytes)
    : allocations_(std::move(sorted)), freeBytes_(freeBytes) {}

std::shared_ptr<const GlobalView> GlobalView::with(std::shared_ptr<Allocation> last) const {
  auto sorted = allocations_;
  sorted.push_back(std::move(last));
  return std::make_shared<const GlobalView>(std::move(sorted), freeBytes_);
}

const Allocation* GlobalView::containing(uint64_t address) const {
  const auto after = firstAbove(allocations_, address);
  if (after == allocations_.begin()) return nullptr;
  const Allocation& candidate = **std::prev(after);
  return address - candidate.base < candidate.bytes ? &candidate : nullptr;
}

uint8_t* GlobalView::find(uint64_t address, uint64_t bytes) const {
  const Allocation* allocation = containing(address);
  if (!allocation) return nullptr;
  const uint64_t offset = address - allocation->base;
  return bytes <= allocation->bytes - offset ? allocation->data.get() + offset : nullptr;
}

std::string GlobalView::describe(uint64_t address, uint64_t bytes) const {
  if (address < kLowestAddress) return "a null pointer plus " + count(address);
  if (allocations_.empty()) return "there is no allocation";
  if (const Allocation* inside = containing(address)) {
    const uint64_t left = inside->bytes - (address - inside->base);
    if (bytes <= left) return count(address - inside->base) + " into " + name(*inside);
    return "the last " + count(bytes - left) + " of the access are past the end of " + name(*inside);
  }
  const auto after = firstAbove(allocations_, address);
  const Allocation* below = after == allocations_.begin() ? nullptr : std::prev(after)->get();
  const Allocation* above = after == allocations_.end() ? nullptr : after->get();
  const uint64_t past = below ? address - (below->base + below->bytes) : UINT64_MAX;
  const uint64_t before = above ? above->base - address : UINT64_MAX;
  if (std::min(past, before) > kNear) return "no allocation is within 1 MiB";
  if (past == 0) return "right past the end of " + name(*below);
  if (past <= before) return count(past) + " past the end of " + name(*below);
  return count(before) + " before " + name(*above);
}

GlobalMemory::GlobalMemory(uint64_t capacity) : capacity_(capacity) {}

// The first address from `next_` on that keeps the guard distance to every allocation (those placed by `at` lie
// anywhere).
uint64_t GlobalMemory::findSpace(uint64_t extent, uint64_t align) const {
  auto aligned = [&](uint64_t address) { return (address + align - 1) / align * align; };
  uint64_t base = aligned(next_);
  for (const Allocation* taken; (taken = overlapping(base - kGuardBytes, extent + 2 * kGuardBytes));)
    base = aligned(taken->base + std::max<uint64_t>(taken->bytes, 1) + kGuardBytes);
  return base;
}

// The last allocation that shares a byte with [address, address+extent); an empty one has one byte here.
const Allocation* GlobalMemory::overlapping(uint64_t address, uint64_t extent) const {
  const auto after = live_.lower_bound(address + extent);
  if (after == live_.begin()) return nullptr;
  const Allocation& last = *std::prev(after)->second;
  return last.base + std::max<uint64_t>(last.bytes, 1) > address ? &last : nullptr;
}

uint64_t GlobalMemory::allocate(uint64_t bytes, uint64_t at, uint32_t align) {
  const std::lock_guard lock(mutex_);
  auto refuse = [&](const std::string& why) -> void {
    throw Fault{Code::OutOfMemory,
                "cannot allocate " + count(bytes) + (at != 0 ? " at " + hex(at) : std::string()) + ": " + why};
  };
  if ((align & (align - 1)) != 0) refuse("the alignment " + std::to_string(align) + " is not a power of two");
  if (bytes > capacity_ - used_)
    refuse(std::to_string(used_) + " of the device's " + std::to_string(capacity_) + " bytes are in use");
  const uint64_t step = std::max<uint64_t>(align, kAllocationAlign);
  const uint64_t extent = std::max<uint64_t>(bytes, 1);
  if (at % step != 0) refuse("the address is not a multiple of " + std::to_string(step));
  if (at != 0 && (at < kLowestAddress || at >= kGlobalEnd || extent > kGlobalEnd - at))
    refuse("device addresses go from " + hex(kLowestAddress) + " to " + hex(kGlobalEnd));
  if (at == 0 && extent > kGlobalEnd - kGlobalBase) refuse("the address space is smaller");
  if (at != 0)
    if (const Allocation* taken = overlapping(at, extent)) refuse("it would overlap " + name(*taken));
  const uint64_t base = at != 0 ? at : findSpace(extent, step);
  if (base >= kGlobalEnd || extent > kGlobalEnd - base) refuse("the address space is used up");

  auto allocation = std::make_shared<Allocation>();
  allocation->base = base;
  allocation->bytes = bytes;
  allocation->data.reset(static_cast<uint8_t*>(std::calloc(extent, 1)));
  if (!allocation->data) refuse("the host has no memory left");
  live_.emplace(base, std::move(allocation));
  released_.erase(base);
  used_ += bytes;
  if (at == 0) next_ = base + extent + kGuardBytes;
  cached_.reset();
  return base;
}

void GlobalMemory::release(uint64_t address) {
  if (address == 0) return;
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) {
    if (released_.contains(address)) throw Fault{Code::InvalidFree, hex(address) + " was freed already"};
    if (const Allocation* inside = overlapping(address, 1))
      throw Fault{Code::InvalidFree, hex(address) + " is " + count(address - inside->base) + " into " +
                                         name(*inside) + ": only its base can be freed"};
    throw Fault{Code::InvalidFree, hex(address) + " is not the address of an allocation"};
  }
  used_ -= found->second->bytes;
  live_.erase(found);
  if (released_.size() == kReleasedKept) released_.erase(released_.begin());  // the oldest: addresses only grow
  released_.insert(address);
  cached_.reset();
}

uint8_t* GlobalMemory::resolve(const char* what, uint64_t address, uint64_t bytes) const {
  const auto memory = view();
  if (bytes == 0) return nullptr;
  uint8_t* data = memory->find(address, bytes);
  if (!data)
    throw Fault{Code::OutOfBounds, std::string(what) + " of " + count(bytes) + " at " + hex(address) + ": " +
                                       memory->describe(address, bytes)};
  return data;
}

void GlobalMemory::write(uint64_t address, const uint8_t* data, uint64_t bytes) {
  if (uint8_t* to = resolve("write", address, bytes)) std::memcpy(to, data, bytes);
}

void GlobalMemory::read(uint64_t address, uint8_t* data, uint64_t bytes) {
  if (const uint8_t* from = resolve("read", address, bytes)) std::memcpy(data, from, bytes);
}

std::shared_ptr<const GlobalView> GlobalMemory::view() const {
  const std::lock_guard lock(mutex_);
  if (!cached_) {
    std::vector<std::shared_ptr<Allocation>> sorted;
    sorted.reserve(live_.size());
    for (const auto& [base, allocation] : live_) sorted.push_back(allocation);
    cached_ = std::make_shared<const GlobalView>(std::move(sorted), capacity_ - used_);
  }
  return cached_;
}

uint64_t GlobalMemory::allocatedBytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

uint64_t GlobalMemory::allocations() const {
  const std::lock_guard lock(mutex_);
  return live_.size();
}

}  // namespace ktl
