// Chrome trace events of one cluster: a process per CTA, a thread per warp and per unit, times in modelled cycles (timing.h).
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace ktl {

// Of a launch and of each cluster; later events are left out. A JS string holds half a GiB.
constexpr size_t kMostTraceBytes = size_t{100} << 20;

class Trace {
 public:
  bool enabled = false;
  static constexpr uint32_t kUnits = 1000;  // rows from here are the asynchronous units of the CTA, by kind
  // A slice [start, start + duration) on a warp's row.
  void slice(uint64_t cta, uint32_t row, const std::string& name, uint64_t start, uint64_t duration);
  void instant(uint64_t cta, uint32_t row, const std::string& name, uint64_t time);
  // Ticks that a warp spent at a CUDA line: readers know roles by their lines.
  void spend(uint64_t cta, uint32_t row, uint32_t line, uint64_t ticks);
  // Metadata: the name of a process and of its unit rows. Warp rows are named with the lines they ran.
  void process(uint64_t cta, const std::string& name);
  void finish();  // writes the names of the warps
  const std::string& events() const { return events_; }

 private:
  void name(const char* what, uint64_t cta, uint32_t row, const std::string& args);
  std::string events_;  // comma-separated objects
  std::map<std::pair<uint64_t, uint32_t>, std::map<uint32_t, uint64_t>> lines_;  // of warps
};

std::string traceDocument(const std::string& events);

}  // namespace ktl
