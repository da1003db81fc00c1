// Chrome trace events of one cluster: a process per CTA, a thread per warp, time in warp-instruction ticks.
#pragma once
#include <cstdint>
#include <string>

namespace ktl {

class Trace {
 public:
  bool enabled = false;
  uint64_t now = 0;  // ticks of the cluster
  // A slice [start, start + duration) on a warp's row. Row 1000 and up are the asynchronous units of the CTA.
  void slice(uint64_t cta, uint32_t row, const std::string& name, uint64_t start, uint64_t duration);
  void instant(uint64_t cta, uint32_t row, const std::string& name);
  void name(uint64_t cta, uint32_t row, const std::string& name);
  const std::string& events() const { return events_; }

 private:
  std::string events_;  // comma-separated objects
};

std::string traceDocument(const std::string& events);

}  // namespace ktl
