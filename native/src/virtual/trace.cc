#include "trace.h"
#include <iterator>

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
  if (!enabled || events_.size() >= kMostTraceBytes) return;
  if (!events_.empty()) events_ += ",\n";
  events_ += head(name, "X", cta, row) + ",\"ts\":" + std::to_string(start) +
             ",\"dur\":" + std::to_string(duration) + "}";
}

void Trace::instant(uint64_t cta, uint32_t row, const std::string& name, uint64_t time) {
  if (!enabled || events_.size() >= kMostTraceBytes) return;
  if (!events_.empty()) events_ += ",\n";
  events_ += head(name, "i", cta, row) + ",\"s\":\"t\",\"ts\":" + std::to_string(time) + "}";
}

void Trace::name(const char* what, uint64_t cta, uint32_t row, const std::string& args) {
  if (!events_.empty()) events_ += ",\n";
  events_ += head(what, "M", cta, row) + ",\"args\":{" + args + "}}";
}

void Trace::process(uint64_t cta, const std::string& text) {
  if (!enabled) return;
  name("process_name", cta, 0, "\"name\":" + quoted(text));
  name("process_sort_index", cta, 0, "\"sort_index\":" + std::to_string(cta));
  static constexpr const char* kNames[] = {"loads", "cp.async", "tensor core", "stores", "tcgen05.st"};
  for (uint32_t unit = 0; unit < std::size(kNames); ++unit)
    name("thread_name", cta, kUnits + unit, "\"name\":" + quoted(kNames[unit]));
}

void Trace::spend(uint64_t cta, uint32_t row, uint32_t line, uint64_t ticks) {
  lines_[{cta, row}][line] += ticks;
}

void Trace::finish() {
  if (!enabled) return;
  for (const auto& [warp, lines] : lines_) {
    std::string text;
    for (const auto& [line, ticks] : lines)
      text += (text.empty() ? "\"" : ",\"") + std::to_string(line) + "\":" + std::to_string(ticks);
    name("thread_name", warp.first, warp.second,
         "\"name\":\"warp " + std::to_string(warp.second) + "\",\"lines\":{" + text + "}");
  }
}

std::string traceDocument(const std::string& events) { return "{\"traceEvents\":[\n" + events + "\n]}\n"; }

}  // namespace ktl
