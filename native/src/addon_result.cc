#include "addon_result.h"
#include "addon_values.h"

namespace ktl::addon {
namespace {

Napi::Number number(Napi::Env env, double value) { return Napi::Number::New(env, value); }

Napi::Object toFinding(Napi::Env env, const Finding& finding) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("code", codeName(finding.code));
  object.Set("fatal", finding.fatal);
  object.Set("remark", finding.remark);
  object.Set("message", finding.message);
  Napi::Array cta = Napi::Array::New(env, 3);
  for (uint32_t i = 0; i < 3; ++i) cta.Set(i, number(env, finding.cta[i]));
  object.Set("cta", cta);
  object.Set("warp", number(env, finding.warp));
  object.Set("lane", number(env, finding.lane));
  object.Set("ptxLine", number(env, finding.ptxLine));
  object.Set("cudaLine", number(env, finding.cudaLine));
  object.Set("cudaFile", finding.cudaFile);
  object.Set("function", finding.function);
  object.Set("instruction", finding.instruction);
  Napi::Array notes = Napi::Array::New(env, finding.notes.size());
  for (uint32_t i = 0; i < finding.notes.size(); ++i) notes.Set(i, finding.notes[i]);
  object.Set("notes", notes);
  object.Set("count", number(env, static_cast<double>(finding.count)));
  return object;
}

Napi::Object toStats(Napi::Env env, const Stats& stats) {
  Napi::Object object = Napi::Object::New(env);
  auto set = [&](const char* name, auto value) { object.Set(name, number(env, static_cast<double>(value))); };
  set("warpInstructions", stats.warpInstructions);
  set("ctas", stats.ctas);
  set("clusters", stats.clusters);
  set("milliseconds", stats.milliseconds);
  set("tensorMacs", stats.tensorMacs);
  set("tmaBytesLoaded", stats.tmaBytesLoaded);
  set("tmaBytesStored", stats.tmaBytesStored);
  set("sharedBytesPerCta", stats.sharedBytesPerCta);
  set("tmemColumns", stats.tmemColumns);
  set("modelledCycles", stats.modelledCycles);
  Napi::Object exact = Napi::Object::New(env), approximated = Napi::Object::New(env);
  for (const auto& [form, count] : stats.exact) exact.Set(form, number(env, static_cast<double>(count)));
  for (const auto& [form, difference] : stats.approximated) approximated.Set(form, difference);
  Napi::Object fidelity = Napi::Object::New(env);
  fidelity.Set("exact", exact);
  fidelity.Set("approximated", approximated);
  object.Set("fidelity", fidelity);
  return object;
}

}  // namespace

Napi::Object toLaunchResult(Napi::Env env, const LaunchResult& result, bool trace) {
  Napi::Object object = Napi::Object::New(env);
  Napi::Array findings = Napi::Array::New(env, result.findings.size());
  for (uint32_t i = 0; i < result.findings.size(); ++i) findings.Set(i, toFinding(env, result.findings[i]));
  object.Set("findings", findings);
  object.Set("stats", toStats(env, result.stats));
  if (trace) object.Set("trace", result.trace);
  return object;
}

Napi::Array toFunctions(Napi::Env env, const ptx::Module& module) {
  Napi::Array functions = Napi::Array::New(env);
  for (const ptx::Function& function : module.functions) {
    if (!function.isEntry || !function.hasBody) continue;
    Napi::Object object = Napi::Object::New(env);
    object.Set("name", function.name);
    Napi::Array params = Napi::Array::New(env, function.params.size());
    for (uint32_t i = 0; i < function.params.size(); ++i) {
      const ptx::Variable& variable = module.variables[static_cast<size_t>(function.params[i])];
      Napi::Object param = Napi::Object::New(env);
      param.Set("offset", number(env, static_cast<double>(variable.offset)));
      param.Set("bytes", number(env, static_cast<double>(variable.bytes)));
      param.Set("align", number(env, variable.align));
      params.Set(i, param);
    }
    object.Set("params", params);
    object.Set("paramBytes", number(env, function.paramBytes));
    object.Set("staticSharedBytes", number(env, function.staticSharedBytes));
    object.Set("registers", number(env, static_cast<double>(function.registers.size())));
    object.Set("maxThreads", number(env, function.maxThreads));
    functions.Set(functions.Length(), object);
  }
  return functions;
}

}  // namespace ktl::addon
