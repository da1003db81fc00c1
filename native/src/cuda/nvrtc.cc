#include "nvrtc.h"
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "library.h"
#include "values.h"

namespace ktl::cuda {
namespace {

using Program = struct ProgramTag*;
constexpr int kCompilationError = 6;  // NVRTC_ERROR_COMPILATION

#define KTL_NVRTC_FUNCTIONS(X)                                                                               \
  X(version, "nvrtcVersion", int* major, int* minor)                                                         \
  X(create, "nvrtcCreateProgram", Program* program, const char* source, const char* name, int headers,       \
    const char* const* texts, const char* const* names)                                                      \
  X(destroy, "nvrtcDestroyProgram", Program* program)                                                        \
  X(compile, "nvrtcCompileProgram", Program program, int count, const char* const* options)                  \
  X(imageBytes, "nvrtcGetCUBINSize", Program program, size_t* bytes)                                         \
  X(image, "nvrtcGetCUBIN", Program program, char* image)                                                    \
  X(ptxBytes, "nvrtcGetPTXSize", Program program, size_t* bytes)                                             \
  X(ptx, "nvrtcGetPTX", Program program, char* ptx)                                                          \
  X(logBytes, "nvrtcGetProgramLogSize", Program program, size_t* bytes)                                      \
  X(log, "nvrtcGetProgramLog", Program program, char* log)

struct Nvrtc {
#define KTL_DECLARE(member, name, ...) int (*member)(__VA_ARGS__) = nullptr;
  KTL_NVRTC_FUNCTIONS(KTL_DECLARE)
#undef KTL_DECLARE
  const char* (*errorString)(int result) = nullptr;
  std::string path, reason;  // no path: the reason
  int major = 0, minor = 0;
};

Nvrtc open(const std::string& path) {
  Nvrtc nvrtc;
  std::vector<std::string> names;
  for (const char* folder : {"", "/usr/local/cuda/lib64/"})
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12"}) names.push_back(std::string(folder) + name);
  const Library library = Library::open(path.empty() ? names : std::vector<std::string>{path}, nvrtc.reason);
  if (!library) return nvrtc;
  nvrtc.errorString = reinterpret_cast<const char* (*)(int)>(library.symbol("nvrtcGetErrorString"));
  bool complete = nvrtc.errorString != nullptr;
#define KTL_RESOLVE(member, name, ...)                                              \
  nvrtc.member = reinterpret_cast<int (*)(__VA_ARGS__)>(library.symbol(name));                               \
  complete = complete && nvrtc.member != nullptr;
  KTL_NVRTC_FUNCTIONS(KTL_RESOLVE)
#undef KTL_RESOLVE
  nvrtc.reason.clear();
  if (!complete || nvrtc.version(&nvrtc.major, &nvrtc.minor) != 0)
    nvrtc.reason = library.path + " is no NVRTC";
  else nvrtc.path = library.path;
  return nvrtc;
}

const Nvrtc& loadNvrtc(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<const Nvrtc>> known;
  const std::lock_guard lock(mutex);
  auto& found = known[path];
  if (!found) found = std::make_unique<const Nvrtc>(open(path));
  return *found;
}

class Compilation : public Napi::AsyncWorker {
 public:
  Compilation(Napi::Env env, const Nvrtc& nvrtc, std::string source, std::string name,
              std::vector<std::string> options, bool ptx)
      : AsyncWorker(env), deferred_(Napi::Promise::Deferred::New(env)), nvrtc_(nvrtc),
        source_(std::move(source)), name_(std::move(name)), options_(std::move(options)), ptx_(ptx) {}
  Napi::Promise promise() const { return deferred_.Promise(); }

  void Execute() override {
    Program program = nullptr;
    std::vector<const char*> options;
    for (const std::string& option : options_) options.push_back(option.c_str());
    int result = nvrtc_.create(&program, source_.c_str(), name_.c_str(), 0, nullptr, nullptr);
    if (result == 0) {
      result = nvrtc_.compile(program, static_cast<int>(options.size()), options.data());
      size_t bytes = 0;
      if (nvrtc_.logBytes(program, &bytes) == 0 && bytes > 1) {
        log_.resize(bytes);
        nvrtc_.log(program, log_.data());
        log_.resize(bytes - 1);  // the terminating zero
      }
      const auto size = ptx_ ? nvrtc_.ptxBytes : nvrtc_.imageBytes;
      const auto get = ptx_ ? nvrtc_.ptx : nvrtc_.image;
      if (result == 0) result = size(program, &bytes);
      if (result == 0) {
        image_.resize(bytes);
        result = get(program, image_.data());
      }
      if (ptx_ && !image_.empty() && image_.back() == 0) image_.pop_back();
      nvrtc_.destroy(&program);
    }
    failed_ = result != 0;
    if (failed_ && result != kCompilationError) log_ = std::string(nvrtc_.errorString(result)) + "\n" + log_;
  }

  void OnOK() override {
    const Napi::Env env = Env();
    Napi::Object object = Napi::Object::New(env);
    object.Set("log", log_);
    if (failed_) {
      object.Set("image", env.Null());
    } else {
      Napi::Uint8Array image = Napi::Uint8Array::New(env, image_.size());
      std::copy(image_.begin(), image_.end(), reinterpret_cast<char*>(image.Data()));
      object.Set("image", image);
    }
    deferred_.Resolve(object);
  }

 private:
  Napi::Promise::Deferred deferred_;
  const Nvrtc& nvrtc_;
  std::string source_, name_;
  std::vector<std::string> options_;
  bool ptx_;
  std::string log_;
  std::vector<char> image_;
  bool failed_ = false;
};

Napi::Value probeNvrtc(const Napi::CallbackInfo& info) {
  const Nvrtc& nvrtc = loadNvrtc(readString(info[0]));
  Napi::Object object = Napi::Object::New(info.Env());
  if (nvrtc.path.empty()) {
    object.Set("reason", nvrtc.reason);
    return object;
  }
  object.Set("path", nvrtc.path);
  object.Set("version", std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor));
  return object;
}

// (path, source, name, options, ptx: boolean)
Napi::Value compileNvrtc(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Nvrtc& nvrtc = loadNvrtc(readString(info[0]));
  if (nvrtc.path.empty() || !info[3].IsArray()) misuse(env, "there is no NVRTC to compile with");
  std::vector<std::string> options;
  const Napi::Array list = info[3].As<Napi::Array>();
  for (uint32_t i = 0; i < list.Length(); ++i) options.push_back(readString(list.Get(i)));
  auto* work = new Compilation(env, nvrtc, readString(info[1]), readString(info[2]), std::move(options),
                               info[4].ToBoolean().Value());
  const Napi::Promise promise = work->promise();
  work->Queue();
  return promise;
}

}  // namespace

void defineNvrtc(Napi::Env env, Napi::Object exports) {
  exports.Set("probeNvrtc", Napi::Function::New(env, probeNvrtc, "probeNvrtc"));
  exports.Set("compileNvrtc", Napi::Function::New(env, compileNvrtc, "compileNvrtc"));
}

}  // namespace ktl::cuda
