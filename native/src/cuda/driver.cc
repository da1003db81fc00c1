#include "driver.h"
#include <map>
#include <memory>
#include <mutex>
#include "library.h"

namespace ktl::cuda {
namespace {

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

DriverStatus open(const std::string& path) {
  std::vector<std::string> names{"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1",
                                 "/usr/local/nvidia/lib64/libcuda.so.1"};
  if (!path.empty()) names = {path};
  std::string reason;
  const Library library = Library::open(names, reason);
  if (!library) return {nullptr, "there is no NVIDIA driver (" + reason + ")"};
  auto driver = std::make_unique<Driver>();
  driver->path = library.path;
  const char* missing = nullptr;
#define KTL_RESOLVE(member, name, ...)                                                                   \
  driver->member = reinterpret_cast<Result (*)(__VA_ARGS__)>(library.symbol(name));                      \
  if (driver->member == nullptr && missing == nullptr) missing = name;
  KTL_DRIVER_FUNCTIONS(KTL_RESOLVE)
#undef KTL_RESOLVE
  const std::string needed = "ktl needs CUDA " + versionText(kMinimumVersion) + " (driver 550) or later";
  if (driver->driverVersion != nullptr && driver->driverVersion(&driver->version) == kSuccess &&
      driver->version < kMinimumVersion)
    return {nullptr, "the driver is too old: it knows CUDA " + versionText(driver->version) + ", " + needed};
  if (missing != nullptr)
    return {nullptr, "the driver is too old: it has no " + std::string(missing) + ", " + needed};
  if (const Result result = driver->init(0); result != kSuccess)
    return {nullptr,
            result == kNoDevice ? "the driver sees no GPU" : "cuInit failed: " + driver->describe(result)};
  if (const Result result = driver->deviceCount(&driver->devices); result != kSuccess)
    return {nullptr, "cuDeviceGetCount failed: " + driver->describe(result)};
  if (driver->devices == 0) return {nullptr, "the driver sees no GPU"};
  return {driver.release(), ""};  // the library stays loaded, and so does its table
}

}  // namespace

std::string Driver::describe(Result result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (errorName(result, &name) != kSuccess || name == nullptr) return "CUDA error " + std::to_string(result);
  if (errorString(result, &text) != kSuccess || text == nullptr) return name;
  return std::string(name) + ": " + text;
}

const DriverStatus& loadDriver(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, DriverStatus> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(path);
  return found != known.end() ? found->second : known.emplace(path, open(path)).first->second;
}

}  // namespace ktl::cuda
