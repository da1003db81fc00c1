#include "loader.h"
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

namespace ktl {
namespace {

bool inDeviceMemory(const ptx::Variable& variable) {
  return variable.space == ptx::Space::Global || variable.space == ptx::Space::Const;
}

struct Target {
  int number = 0;     // 100 of sm_100a
  std::string suffix; // "a": this architecture only, "f": its family, "": every later one
};

Target parseTarget(const std::string& name) {
  char* end = nullptr;
  const char* digits = name.c_str() + (name.starts_with("sm_") ? 3 : 0);
  const int number = static_cast<int>(std::strtol(digits, &end, 10));
  return {number, end};
}

// PTX ISA 11.1: plain targets run on later architectures, …a on their own only, …f within their family.
bool runsOn(const std::string& moduleTarget, const std::string& deviceTarget) {
  const Target module = parseTarget(moduleTarget), device = parseTarget(deviceTarget);
  if (module.suffix == "a") return module.number == device.number;
  if (module.suffix == "f") return module.number / 10 == device.number / 10 && module.number <= device.number;
  return module.suffix.empty() && module.number <= device.number;
}

uint32_t lineOf(const std::string& source, const char* word) {
  const size_t at = source.find(word);
  return 1 + static_cast<uint32_t>(
                 std::count(source.begin(), source.begin() + static_cast<long>(std::min(at, source.size())), '\n'));
}

}  // namespace

LoadedModule::LoadedModule(std::string source, const DeviceInfo& device, std::shared_ptr<GlobalMemory> memory)
    : memory_(std::move(memory)), module_(ptx::parse(std::move(source))) {
  if (!runsOn(module_->target, device.target))
    throw Fault{Code::PtxSyntax, "line " + std::to_string(lineOf(module_->source, ".target")) + ": PTX for " +
                                     module_->target + " does not run on a virtual " + device.target + " device"};
  try {
    allocateVariables();
    executable_ = Executable::decode(module_, device, addresses_);
  } catch (...) {
    releaseVariables();
    throw;
  }
}

LoadedModule::~LoadedModule() { releaseVariables(); }

void LoadedModule::allocateVariables() {
  addresses_.assign(module_->variables.size(), 0);
  for (size_t i = 0; i < addresses_.size(); ++i) {
    const ptx::Variable& variable = module_->variables[i];
    if (inDeviceMemory(variable)) addresses_[i] = memory_->allocate(variable.bytes, 0, variable.align);
  }
  for (size_t i = 0; i < addresses_.size(); ++i)
    if (addresses_[i] != 0) initialise(module_->variables[i], addresses_[i]);
}

void LoadedModule::initialise(const ptx::Variable& variable, uint64_t address) const {
  memory_->write(address, variable.init.data(), variable.init.size());
  for (const ptx::Relocation& relocation : variable.relocations) {
    const uint64_t target = relocation.symbol >= 0 ? addresses_[static_cast<size_t>(relocation.symbol)]
                                                   : ptx::functionAddress(relocation.function);
    const uint64_t value = (target + static_cast<uint64_t>(relocation.addend)) >> relocation.shift;
    uint8_t bytes[16] = {};
    std::memcpy(bytes, &value, sizeof value);
    memory_->write(address + relocation.offset, bytes, std::min<uint64_t>(relocation.bytes, sizeof bytes));
  }
}

void LoadedModule::releaseVariables() {
  for (const uint64_t address : addresses_) {
    try {
      memory_->release(address);
    } catch (const Fault&) {
      // The user freed the variable's memory through the device: nothing is left to release.
    }
  }
  addresses_.clear();
}

std::optional<VariablePlace> LoadedModule::find(const std::string& name) const {
  for (size_t i = 0; i < addresses_.size(); ++i) {
    const ptx::Variable& variable = module_->variables[i];
    if (variable.function < 0 && inDeviceMemory(variable) && variable.name == name)
      return VariablePlace{addresses_[i], variable.bytes};
  }
  return std::nullopt;
}

LaunchResult LoadedModule::launch(const std::string& entry, const LaunchConfig& config,
                                  std::shared_ptr<const GlobalView> memory) const {
  return executable_->launch(entry, config, std::move(memory));
}

}  // namespace ktl
