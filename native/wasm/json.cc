#include "json.h"
#include <cstdio>

namespace ktl::wasm {
namespace {

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    char escape[8];
    if (c == '"' || c == '\\')
      json += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      std::snprintf(escape, sizeof escape, "\\u%04x", c), json += escape;
    else
      json += c;
  }
  return json + '"';
}

template <class List, class Print>
std::string list(const List& items, Print print, char open = '[', char close = ']') {
  std::string json(1, open);
  for (const auto& item : items) json += (json.size() > 1 ? "," : "") + print(item);
  return json + close;
}

class Object {
 public:
  Object& text(const char* name, const std::string& value) { return json(name, quoted(value)); }
  Object& flag(const char* name, bool value) { return json(name, value ? "true" : "false"); }
  template <class Integer>
  Object& number(const char* name, Integer value) {
    return json(name, std::to_string(value));
  }
  Object& json(const char* name, const std::string& value) {
    json_ += (json_.empty() ? "{\"" : ",\"") + std::string(name) + "\":" + value;
    return *this;
  }
  std::string done() const { return json_.empty() ? "{}" : json_ + '}'; }

 private:
  std::string json_;
};

std::string codeName(Code code) { return "KTL" + std::to_string(static_cast<int>(code)); }

std::string toJson(const Finding& f) {
  const auto number = [](uint32_t value) { return std::to_string(value); };
  return Object()
      .text("code", codeName(f.code)).flag("fatal", f.fatal).flag("remark", f.remark).text("message", f.message)
      .json("cta", list(f.cta, number)).number("warp", f.warp).number("lane", f.lane)
      .number("ptxLine", f.ptxLine).number("cudaLine", f.cudaLine).text("cudaFile", f.cudaFile)
      .text("function", f.function).text("instruction", f.instruction)
      .json("notes", list(f.notes, quoted)).number("count", f.count).done();
}

std::string toJson(const Stats& s) {
  const auto count = [](const auto& entry) { return quoted(entry.first) + ':' + std::to_string(entry.second); };
  const auto note = [](const auto& entry) { return quoted(entry.first) + ':' + quoted(entry.second); };
  const std::string fidelity = Object()
      .json("exact", list(s.exact, count, '{', '}')).json("approximated", list(s.approximated, note, '{', '}')).done();
  return Object()
      .number("warpInstructions", s.warpInstructions).number("ctas", s.ctas).number("clusters", s.clusters)
      .number("milliseconds", s.milliseconds).number("tensorMacs", s.tensorMacs)
      .number("tmaBytesLoaded", s.tmaBytesLoaded).number("tmaBytesStored", s.tmaBytesStored)
      .number("sharedBytesPerCta", s.sharedBytesPerCta).number("tmemColumns", s.tmemColumns)
      .number("modelledCycles", s.modelledCycles).json("fidelity", fidelity).done();
}

}  // namespace

std::string toJson(const Fault& fault) {
  return Object().text("code", codeName(fault.code)).text("message", fault.message).done();
}

std::string toJson(const ptx::Module& module) {
  std::vector<const ptx::Function*> entries;
  for (const ptx::Function& function : module.functions)
    if (function.isEntry && function.hasBody) entries.push_back(&function);
  const auto param = [&](int index) {
    const ptx::Variable& v = module.variables[static_cast<size_t>(index)];
    return Object().number("offset", v.offset).number("bytes", v.bytes).number("align", v.align).done();
  };
  const auto entry = [&](const ptx::Function* f) {
    return Object()
        .text("name", f->name).json("params", list(f->params, param)).number("paramBytes", f->paramBytes)
        .number("staticSharedBytes", f->staticSharedBytes).number("registers", f->registers.size())
        .number("maxThreads", f->maxThreads).done();
  };
  return Object().json("functions", list(entries, entry)).text("target", module.target).done();
}

std::string toJson(const LaunchResult& result, const std::string& printed) {
  const auto finding = [](const Finding& f) { return toJson(f); };
  return Object()
      .json("findings", list(result.findings, finding)).json("stats", toJson(result.stats)).text("printed", printed).done();
}

}  // namespace ktl::wasm
