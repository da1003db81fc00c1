// A module on a device: its variables allocated and initialised, its code decoded.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "machine.h"
#include "memory.h"
#include "program.h"

namespace ktl {

struct VariablePlace {
  uint64_t address = 0, bytes = 0;
};

class LoadedModule {
 public:
  // Throws Fault: PtxSyntax and UnknownInstruction ("line N…", for operands; a form that is not known stops only a
  // launch that reaches it), OutOfMemory.
  LoadedModule(std::string source, const DeviceInfo& device, std::shared_ptr<GlobalMemory> memory);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  const ptx::Module& module() const { return *module_; }
  // A module-scope .global or .const variable.
  std::optional<VariablePlace> find(const std::string& name) const;
  // What a launch sees as device memory: taken when it is asked for, not when its thread begins to run.
  std::shared_ptr<const GlobalView> view() const { return memory_->view(); }
  // Blocks until the launch ends; thread-safe.
  LaunchResult launch(const std::string& entry, const LaunchConfig& config,
                      std::shared_ptr<const GlobalView> memory) const;

 private:
  void allocateVariables();
  void initialise(const ptx::Variable& variable, uint64_t address) const;
  void releaseVariables();

  std::shared_ptr<GlobalMemory> memory_;
  std::shared_ptr<const ptx::Module> module_;
  std::vector<uint64_t> addresses_;  // per Module::variables, 0: not in device memory
  std::unique_ptr<Executable> executable_;
};

// Whether the launch fits the entry and the device, before anything runs. Takes over the cluster shape that the
// entry requires when the caller gave none. Throws Fault LaunchConfig.
void checkLaunch(const ptx::Module& module, const std::string& entry, LaunchConfig& config);

}  // namespace ktl
