// The addon: class VirtualDevice and the modules it loads (runtime/addon/virtual.ts), and what cuda/ offers. No state
// outside the environment but loaded drivers, so that every worker thread can load it.
#include <napi.h>
#include <memory>
#include "addon_launch.h"
#include "addon_result.h"
#include "addon_values.h"
#include "cuda/addon_cuda.h"
#include "virtual/loader.h"
#include "virtual/memory.h"

namespace ktl::addon {
namespace {

constexpr double kMaxSms = 1024;
constexpr uint64_t kMaxReadBytes = uint64_t{1} << 32;  // of one Uint8Array

struct EnvironmentData {
  Napi::FunctionReference moduleClass;
};

class VirtualModule : public Napi::ObjectWrap<VirtualModule> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "VirtualModule",
                       {InstanceMethod("global", &VirtualModule::global),
                        InstanceMethod("launch", &VirtualModule::launch)});
  }

  static Napi::Value create(Napi::Env env, std::shared_ptr<const LoadedModule> module) {
    return env.GetInstanceData<EnvironmentData>()->moduleClass.New(
        {Napi::External<std::shared_ptr<const LoadedModule>>::New(env, &module)});
  }

  explicit VirtualModule(const Napi::CallbackInfo& info) : ObjectWrap(info) {
    if (!info[0].IsExternal()) misuse(info.Env(), "modules are made by VirtualDevice.loadModule");
    module_ = *info[0].As<Napi::External<std::shared_ptr<const LoadedModule>>>().Data();
    const ptx::Module& module = module_->module();
    const auto target = Napi::String::New(info.Env(), module.target);
    info.This().As<Napi::Object>().DefineProperties({
        Napi::PropertyDescriptor::Value("functions", toFunctions(info.Env(), module), napi_enumerable),
        Napi::PropertyDescriptor::Value("target", target, napi_enumerable),
    });
  }

 private:
  Napi::Value global(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    return guarded(env, [&]() -> Napi::Value {
      const auto place = module_->find(readString(env, info[0], "name"));
      if (!place) return env.Null();
      Napi::Object object = Napi::Object::New(env);
      object.Set("address", Napi::BigInt::New(env, place->address));
      object.Set("bytes", Napi::Number::New(env, static_cast<double>(place->bytes)));
      return object;
    });
  }

  Napi::Value launch(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    try {
      return guarded(env, [&] {
        const std::string entry = readString(env, info[0], "name");
        return LaunchTask::start(env, module_, entry, readObject(env, info[1], "launch"));
      });
    } catch (const Napi::Error& error) {
      const auto deferred = Napi::Promise::Deferred::New(env);
      deferred.Reject(error.Value());
      return deferred.Promise();
    }
  }

  std::shared_ptr<const LoadedModule> module_;
};

class VirtualDevice : public Napi::ObjectWrap<VirtualDevice> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "VirtualDevice",
                       {
                           InstanceMethod("malloc", &VirtualDevice::malloc),
                           InstanceMethod("free", &VirtualDevice::free),
                           InstanceMethod("write", &VirtualDevice::write),
                           InstanceMethod("read", &VirtualDevice::read),
                           InstanceMethod("memoryInfo", &VirtualDevice::memoryInfo),
                           InstanceMethod("loadModule", &VirtualDevice::loadModule),
                       });
  }

  explicit VirtualDevice(const Napi::CallbackInfo& info) : ObjectWrap(info) {
    const Napi::Env env = info.Env();
    guarded(env, [&] {
      const Napi::Object options = readObject(env, info[0], "options");
      info_.target = readString(env, options.Get("target"), "target");
      if (info_.target != "sm_100a" && info_.target != "sm_90a")
        misuse(env, "target: expected 'sm_100a' or 'sm_90a'");
      const uint64_t memoryBytes = readInteger(env, options.Get("memoryBytes"), "memoryBytes");
      info_.smCount = static_cast<uint32_t>(readInteger(env, options.Get("smCount"), "smCount", kMaxSms));
      if (info_.smCount == 0) misuse(env, "smCount: expected at least 1");
      memory_ = std::make_shared<GlobalMemory>(memoryBytes);
    });
  }

  // What this device holds is given back to the garbage collector's account with it.
  void Finalize(Napi::Env env) override {
    if (accounted_ != 0) Napi::MemoryManagement::AdjustExternalMemory(env, -accounted_);
  }

 private:
  Napi::Value malloc(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    return guarded(env, [&] {
      const uint64_t bytes = readInteger(env, info[0], "bytes");
      const uint64_t at = readAddress(env, info[1], "at");
      const auto align = static_cast<uint32_t>(readInteger(env, info[2], "align", uint32_t{1} << 31));
      const uint64_t address = memory_->allocate(bytes, at, align);
      account(env);
      return Napi::BigInt::New(env, address);
    });
  }

  Napi::Value free(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    return guarded(env, [&] {
      memory_->release(readAddress(env, info[0], "address"));
      account(env);
      return env.Undefined();
    });
  }

  Napi::Value write(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    return guarded(env, [&] {
      const uint64_t address = readAddress(env, info[0], "address");
      const Napi::Uint8Array data = readBytes(env, info[1], "data");
      memory_->write(address, data.Data(), data.ByteLength());
      return env.Undefined();
    });
  }

  Napi::Value read(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    return guarded(env, [&] {
      const uint64_t address = readAddress(env, info[0], "address");
      const uint64_t bytes = readInteger(env, info[1], "bytes", kMaxReadBytes);
      memory_->checkRange("read", address, bytes);  // before V8 allocates that much
      Napi::Uint8Array data = Napi::Uint8Array::New(env, bytes);
      memory_->read(address, data.Data(), bytes);
      return data;
    });
  }

  Napi::Value memoryInfo(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    Napi::Object object = Napi::Object::New(env);
    object.Set("allocatedBytes", Napi::Number::New(env, static_cast<double>(memory_->allocatedBytes())));
    object.Set("allocations", Napi::Number::New(env, static_cast<double>(memory_->allocations())));
    object.Set("capacityBytes", Napi::Number::New(env, static_cast<double>(memory_->capacity())));
    return object;
  }

  Napi::Value loadModule(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    return guarded(env, [&] {
      const auto module = std::make_shared<const LoadedModule>(readString(env, info[0], "ptx"), info_, memory_);
      return VirtualModule::create(env, module);
    });
  }

  // Device memory is host memory that V8 does not see: without this, dropped devices pile up.
  void account(Napi::Env env) {
    const auto now = static_cast<int64_t>(memory_->allocatedBytes());
    Napi::MemoryManagement::AdjustExternalMemory(env, now - accounted_);
    accounted_ = now;
  }

  DeviceInfo info_;
  std::shared_ptr<GlobalMemory> memory_;
  int64_t accounted_ = 0;
};

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  auto* data = new EnvironmentData;
  data->moduleClass = Napi::Persistent(VirtualModule::define(env));
  env.SetInstanceData(data);
  exports.Set("VirtualDevice", VirtualDevice::define(env));
  cuda::defineCuda(env, exports);
  return exports;
}

}  // namespace
}  // namespace ktl::addon

static Napi::Object Init(Napi::Env env, Napi::Object exports) { return ktl::addon::initialise(env, exports); }
NODE_API_MODULE(ktl, Init)
