#include "addon_cuda.h"
#include <algorithm>
#include <chrono>
#include <deque>
#include "addon_device.h"
#include "module.h"
#include "nvrtc.h"
#include "values.h"

namespace ktl::cuda {
namespace {

constexpr size_t kShapeWords = sizeof(LaunchShape) / sizeof(uint32_t);

LaunchShape readShape(const Napi::Value& value) {
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_uint32_array ||
      value.As<Napi::Uint32Array>().ElementLength() != kShapeWords)
    misuse(value.Env(), "expected a launch shape");
  LaunchShape shape;
  std::copy_n(value.As<Napi::Uint32Array>().Data(), kShapeWords, reinterpret_cast<uint32_t*>(&shape));
  return shape;
}

class CudaModule : public Napi::ObjectWrap<CudaModule> {
 public:
  static constexpr napi_type_tag kTag{0x6b746c2063756461, 0x6d6f64756c652031};
  static constexpr const char* kExpected = "expected a CudaModule";
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "CudaModule",
                       {InstanceMethod("global", &CudaModule::global),
                        InstanceMethod("launch", &CudaModule::launch)});
  }

  // (device, image)
  explicit CudaModule(const Napi::CallbackInfo& info) : ObjectWrap(info) {
    const Napi::Env env = info.Env();
    guarded(env, [&] {
      const auto& gpu = unwrap<CudaDevice>(info[0])->gpu();
      gpu->enter();
      const Napi::Uint8Array image = readBytes(info[1]);
      module_ = std::make_shared<GpuModule>(
          gpu, std::string(reinterpret_cast<const char*>(image.Data()), image.ByteLength()));
      Napi::Object self = info.This().As<Napi::Object>();
      self.TypeTag(&kTag);
      self.DefineProperty(Napi::PropertyDescriptor::Value("functions", functions(env), napi_enumerable));
    });
  }

  const std::shared_ptr<GpuModule>& module() const { return module_; }

 private:
  Napi::Array functions(Napi::Env env) {
    Napi::Array list = Napi::Array::New(env);
    for (const GpuFunction& function : module_->functions()) {
      Napi::Object object = Napi::Object::New(env);
      Napi::Array params = Napi::Array::New(env);
      for (const auto& param : function.params) {
        Napi::Object slot = Napi::Object::New(env);
        slot.Set("offset", toNumber(env, static_cast<double>(param.offset)));
        slot.Set("bytes", toNumber(env, static_cast<double>(param.bytes)));
        params.Set(params.Length(), slot);
      }
      object.Set("name", function.name);
      object.Set("params", params);
      object.Set("paramBytes", toNumber(env, static_cast<double>(function.paramBytes)));
      object.Set("staticSharedBytes", toNumber(env, function.staticSharedBytes));
      object.Set("registers", toNumber(env, function.registers));
      object.Set("maxThreads", toNumber(env, function.maxThreads));
      list.Set(list.Length(), object);
    }
    return list;
  }

  Napi::Value global(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    return guarded(env, [&]() -> Napi::Value {
      module_->gpu().enter();
      Address address = 0;
      size_t bytes = 0;
      if (!module_->global(readString(info[0]), address, bytes)) return env.Null();
      Napi::Object object = Napi::Object::New(env);
      object.Set("address", Napi::BigInt::New(env, address));
      object.Set("bytes", toNumber(env, static_cast<double>(bytes)));
      return object;
    });
  }

  // (function, shape, params, stream): once, with nothing prepared.
  Napi::Value launch(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
      Gpu& gpu = module_->gpu();
      gpu.enter();
      const Napi::Uint8Array params = readBytes(info[2]);
      KernelLaunch launch(*module_, module_->function(readId(info[0])), readShape(info[1]), params.Data(),
                          params.ByteLength());
      launch.launch(gpu, gpu.stream(readId(info[3])));
      return info.Env().Undefined();
    });
  }

  std::shared_ptr<GpuModule> module_;
};

// Launches of one call in stream order, with everything but the stream.
class CudaLaunch : public Napi::ObjectWrap<CudaLaunch> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "CudaLaunch",
                       {InstanceMethod("add", &CudaLaunch::add), InstanceMethod("patch", &CudaLaunch::patch),
                        InstanceMethod("launch", &CudaLaunch::launch),
                        InstanceMethod("time", &CudaLaunch::time)});
  }

  // (device)
  explicit CudaLaunch(const Napi::CallbackInfo& info)
      : ObjectWrap(info), gpu_(unwrap<CudaDevice>(info[0])->gpu()) {}

 private:
  // (module, function, shape, params)
  Napi::Value add(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
      gpu_->enter();
      const auto& module = unwrap<CudaModule>(info[0])->module();
      const Napi::Uint8Array params = readBytes(info[3]);
      launches_.emplace_back(*module, module->function(readId(info[1])), readShape(info[2]), params.Data(),
                             params.ByteLength());
      modules_.push_back(module);
      return info.Env().Undefined();
    });
  }

  // (launch, offset, address)
  Napi::Value patch(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
      const uint32_t index = readId(info[0]);
      if (index >= launches_.size()) misuse(info.Env(), "no such launch");
      launches_[index].patch(readSize(info[1]), readAddress(info[2]));
      return info.Env().Undefined();
    });
  }

  // (stream)
  Napi::Value launch(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
      gpu_->enter();
      GpuStream& stream = gpu_->stream(readId(info[0]));
      for (KernelLaunch& launch : launches_) launch.launch(*gpu_, stream);
      return info.Env().Undefined();
    });
  }

  // (stream, count): nanoseconds that one call takes of the CPU, from C++ alone.
  Napi::Value time(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
      gpu_->enter();
      GpuStream& stream = gpu_->stream(readId(info[0]));
      const uint32_t count = std::max(1u, readId(info[1]));
      const auto start = std::chrono::steady_clock::now();
      for (uint32_t i = 0; i < count; ++i)
        for (KernelLaunch& launch : launches_) launch.launch(*gpu_, stream);
      const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
      return toNumber(info.Env(), taken.count() / count);
    });
  }

  std::shared_ptr<Gpu> gpu_;
  std::vector<std::shared_ptr<GpuModule>> modules_;
  std::deque<KernelLaunch> launches_;
};

class CudaGraph : public Napi::ObjectWrap<CudaGraph> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "CudaGraph",
                       {InstanceMethod("launch", &CudaGraph::launch),
                        InstanceMethod("free", &CudaGraph::free)});
  }

  // (device, stream): ends the stream's capture.
  explicit CudaGraph(const Napi::CallbackInfo& info) : ObjectWrap(info) {
    guarded(info.Env(), [&] {
      gpu_ = unwrap<CudaDevice>(info[0])->gpu();
      gpu_->enter();
      GpuStream& stream = gpu_->stream(readId(info[1]));
      name_ = stream.recent.last();
      GraphTemplate graph = nullptr;
      gpu_->check(gpu_->driver().endCapture(stream.handle, &graph), "cuStreamEndCapture");
      const Result result = gpu_->driver().instantiate(&exec_, graph, 0);
      gpu_->driver().destroyGraph(graph);
      gpu_->check(result, "cuGraphInstantiate");
    });
  }
  ~CudaGraph() override { release(); }

 private:
  Napi::Value launch(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
      gpu_->enter();
      GpuStream& stream = gpu_->stream(readId(info[0]));
      if (exec_ == nullptr) misuse(info.Env(), "the graph was freed");
      stream.recent.add(name_);
      gpu_->check(gpu_->driver().launchGraph(exec_, stream.handle), "cuGraphLaunch");
      return info.Env().Undefined();
    });
  }
  Napi::Value free(const Napi::CallbackInfo& info) {
    release();
    return info.Env().Undefined();
  }
  // The driver lets running graphs finish.
  void release() {
    if (exec_ == nullptr) return;
    gpu_->makeCurrent();
    gpu_->driver().destroyGraphExec(exec_);
    exec_ = nullptr;
  }

  std::shared_ptr<Gpu> gpu_;
  GraphExec exec_ = nullptr;
  const char* name_ = nullptr;  // of the last kernel in it
};

class CudaEvent : public Napi::ObjectWrap<CudaEvent> {
 public:
  static constexpr napi_type_tag kTag{0x6b746c2063756461, 0x6576656e74202031};
  static constexpr const char* kExpected = "expected a CudaEvent";
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "CudaEvent",
                       {InstanceMethod("record", &CudaEvent::record),
                        InstanceMethod("elapsed", &CudaEvent::elapsed),
                        InstanceMethod("settled", &CudaEvent::settled)});
  }

  // (device)
  explicit CudaEvent(const Napi::CallbackInfo& info) : ObjectWrap(info) {
    guarded(info.Env(), [&] {
      gpu_ = unwrap<CudaDevice>(info[0])->gpu();
      gpu_->enter();
      // Without blocking sync: the interrupt that it asks for would be part of the times, half a microsecond on an H100.
      gpu_->check(gpu_->driver().createEvent(&event_, 0), "cuEventCreate");
      info.This().As<Napi::Object>().TypeTag(&kTag);
    });
  }
  ~CudaEvent() override {
    if (event_ == nullptr) return;
    gpu_->makeCurrent();
    gpu_->driver().destroyEvent(event_);
  }

 private:
  Napi::Value record(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
      gpu_->enter();
      stream_ = readId(info[0]);
      gpu_->check(gpu_->driver().recordEvent(event_, gpu_->stream(stream_).handle), "cuEventRecord");
      return info.Env().Undefined();
    });
  }
  // Both objects are kept until the answer is there.
  Napi::Value settled(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
      gpu_->enter();
      const auto self = keep(info.This());
      const auto home = [self](Napi::Env env) -> Napi::Value { return env.Undefined(); };
      return gpu_->after(info.Env(), stream_, event_, nullptr, home);
    });
  }
  // (start): milliseconds from it to this one.
  Napi::Value elapsed(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
      gpu_->enter();
      CudaEvent* start = unwrap<CudaEvent>(info[0]);
      const auto home = [this, start, self = keep(info.This()),
                         other = keep(info[0])](Napi::Env env) -> Napi::Value {
        float milliseconds = 0;
        gpu_->check(gpu_->driver().elapsed(&milliseconds, start->event_, event_), "cuEventElapsedTime");
        return toNumber(env, milliseconds);
      };
      return gpu_->after(info.Env(), stream_, event_, nullptr, home);
    });
  }
  static std::shared_ptr<Napi::ObjectReference> keep(const Napi::Value& value) {
    return std::make_shared<Napi::ObjectReference>(Napi::Persistent(value.As<Napi::Object>()));
  }

  std::shared_ptr<Gpu> gpu_;
  Event event_ = nullptr;
  uint32_t stream_ = 0;
};

// (path): the driver that there is and the names of its GPUs, or the reason why there is none.
Napi::Value probeCuda(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const DriverStatus& status = loadDriver(readString(info[0]));
  Napi::Object object = Napi::Object::New(env);
  if (status.driver == nullptr) {
    object.Set("reason", status.reason);
    return object;
  }
  object.Set("path", status.driver->path);
  object.Set("version", toNumber(env, status.driver->version));
  Napi::Array names = Napi::Array::New(env);
  for (int i = 0; i < status.driver->devices; ++i) {
    DeviceId device = 0;
    char name[256] = "";
    if (status.driver->deviceGet(&device, i) == kSuccess)
      status.driver->deviceName(name, sizeof name, device);
    names.Set(names.Length(), name);
  }
  object.Set("devices", names);
  return object;
}

}  // namespace

void defineCuda(Napi::Env env, Napi::Object exports) {
  exports.Set("CudaDevice", CudaDevice::define(env));
  exports.Set("CudaModule", CudaModule::define(env));
  exports.Set("CudaLaunch", CudaLaunch::define(env));
  exports.Set("CudaGraph", CudaGraph::define(env));
  exports.Set("CudaEvent", CudaEvent::define(env));
  exports.Set("probeCuda", Napi::Function::New(env, probeCuda, "probeCuda"));
  defineNvrtc(env, exports);
}

}  // namespace ktl::cuda
