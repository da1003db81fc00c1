#include "trace.h"

namespace ktl {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

std::string head(const std::string& name, const char* phase, uint64_t cta, uint32_t row) {
  return "{\"name\":" + quoted(name) + ",\"ph\":\"" + phase + "\",\"pid\":" + std::to_string(cta) +
         ",\"tid\":" + std::to_string(row);
}

}  // namespace

void Trace::slice(uint64_t cta, uint32_t row, const std::string& name, uint64_t start, uint64_t duration) {
  if (!enabled) return;
  if (!events_.empty()) events_ += ",\n";
  events_ += head(name, "X", cta, row) + ",\"ts\":" + std::to_string(start) +
             ",\"dur\":" + std::to_string(duration) + "}";
}

void Trace::instant(uint64_t cta, uint32_t row, const std::string& name) {
  if (!enabled) return;
  if (!events_.empty()) events_ += ",\n";
  events_ += head(name, "i", cta, row) + ",\"s\":\"t\",\"ts\":" + std::to_string(now) + "}";
}

void Trace::name(uint64_t cta, uint32_t row, const std::string& name) {
  if (!enabled) return;
  if (!events_.empty()) events_ += ",\n";
  events_ += head("thread_name", "M", cta, row) + ",\"args\":{\"name\":" + quoted(name) + "}}";
}

std::string traceDocument(const std::string& events) { return "{\"traceEvents\":[\n" + events + "\n]}\n"; }

}  // namespace ktl
