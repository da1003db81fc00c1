#include "addon_device.h"
#include <cstring>
#include "module.h"
#include "values.h"

namespace ktl::cuda {

Napi::Function CudaDevice::define(Napi::Env env) {
  return DefineClass(env, "CudaDevice",
                     {
                         InstanceMethod("allocate", &CudaDevice::allocate),
                         InstanceMethod("free", &CudaDevice::free),
                         InstanceMethod("clusters", &CudaDevice::clusters),
                         InstanceMethod("memoryInfo", &CudaDevice::memoryInfo),
                         InstanceMethod("createStream", &CudaDevice::createStream),
                         InstanceMethod("idle", &CudaDevice::idle),
                         InstanceMethod("settled", &CudaDevice::settled),
                         InstanceMethod("join", &CudaDevice::join),
                         InstanceMethod("write", &CudaDevice::write),
                         InstanceMethod("read", &CudaDevice::read),
                         InstanceMethod("writeNow", &CudaDevice::writeNow),
                         InstanceMethod("readNow", &CudaDevice::readNow),
                         InstanceMethod("fill", &CudaDevice::fill),
                         InstanceMethod("encodeTensorMap", &CudaDevice::encodeTensorMap),
                         InstanceMethod("beginCapture", &CudaDevice::beginCapture),
                         InstanceMethod("abortCapture", &CudaDevice::abortCapture),
                         InstanceMethod("close", &CudaDevice::close),
                     });
}

CudaDevice::CudaDevice(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  const Napi::Env env = info.Env();
  guarded(env, [&] {
    gpu_ = Gpu::open(env, readString(info[0]), readId(info[1]));
    Napi::Object self = info.This().As<Napi::Object>();
    self.TypeTag(&kTag);
    self.DefineProperty(Napi::PropertyDescriptor::Value("properties", properties(env), napi_enumerable));
  });
}

Napi::Object CudaDevice::properties(Napi::Env env) {
  char name[256] = "";
  gpu_->driver().deviceName(name, sizeof name, gpu_->device());
  size_t bytes = 0;
  gpu_->driver().deviceMemory(&bytes, gpu_->device());
  const auto number = [&](DeviceAttribute id) { return toNumber(env, gpu_->attribute(id)); };
  Napi::Object object = Napi::Object::New(env);
  object.Set("name", name);
  const int major = gpu_->attribute(DeviceAttribute::ComputeCapabilityMajor);
  object.Set("cc", toNumber(env, major * 10 + gpu_->attribute(DeviceAttribute::ComputeCapabilityMinor)));
  object.Set("smCount", number(DeviceAttribute::MultiprocessorCount));
  object.Set("memoryBytes", toNumber(env, static_cast<double>(bytes)));
  object.Set("l2Bytes", number(DeviceAttribute::L2Bytes));
  object.Set("sharedBytesPerSm", number(DeviceAttribute::MaxSharedBytesPerSm));
  object.Set("sharedBytesPerBlock", number(DeviceAttribute::MaxSharedBytesOptIn));
  object.Set("clockKHz", number(DeviceAttribute::ClockRateKhz));
  object.Set("memoryClockKHz", number(DeviceAttribute::MemoryClockRateKhz));
  object.Set("memoryBusBits", number(DeviceAttribute::MemoryBusBits));
  object.Set("driverVersion", toNumber(env, gpu_->driver().version));
  return object;
}

Napi::Value CudaDevice::allocate(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    gpu_->enter();
    const size_t bytes = readSize(info[0]);
    Address address = 0;
    if (const Result result = gpu_->driver().allocate(&address, bytes); result != kSuccess) {
      size_t free = 0, total = 0;
      if (result == kOutOfMemory && gpu_->driver().memoryInfo(&free, &total) == kSuccess)
        throw CudaFault{Code::OutOfMemory, std::to_string(bytes) + " bytes were asked for, " +
                                               std::to_string(free) + " of " + std::to_string(total) +
                                               " are free on the device"};
      gpu_->fail(result, "cuMemAlloc", nullptr);
    }
    return Napi::BigInt::New(env, address);
  });
}

Napi::Value CudaDevice::free(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    gpu_->enter();
    gpu_->check(gpu_->driver().free(readAddress(info[0])), "cuMemFree");
    return info.Env().Undefined();
  });
}

Napi::Value CudaDevice::memoryInfo(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    gpu_->enter();
    size_t free = 0, total = 0;
    gpu_->check(gpu_->driver().memoryInfo(&free, &total), "cuMemGetInfo");
    Napi::Object object = Napi::Object::New(env);
    object.Set("freeBytes", toNumber(env, static_cast<double>(free)));
    object.Set("totalBytes", toNumber(env, static_cast<double>(total)));
    return object;
  });
}

// Of 2, 4 and 8 CTAs, each alone on its SM: GPCs have different numbers of SMs, and no two chips the same ones. Shorter: the driver does
// not say.
Napi::Value CudaDevice::clusters(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    gpu_->enter();
    Napi::Array counts = Napi::Array::New(env);
    if (gpu_->attribute(DeviceAttribute::ComputeCapabilityMajor) < 9) return counts;
    const Driver& driver = gpu_->driver();
    GpuModule module(gpu_, ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry ktl_nothing() { ret; }\n");
    const Function nothing = module.function(0).handle;
    const int bytes = gpu_->attribute(DeviceAttribute::MaxSharedBytesOptIn);
    if (driver.setFunctionAttribute(nothing, FunctionAttribute::MaxDynamicSharedBytes, bytes) != kSuccess) return counts;
    for (const uint32_t size : {2u, 4u, 8u}) {
      LaunchAttribute attribute{};
      attribute.id = LaunchAttributeId::ClusterDimension;
      attribute.value.clusterDim = {size, 1, 1};
      const LaunchConfig config{size, 1, 1, 32, 1, 1, static_cast<uint32_t>(bytes), nullptr, &attribute, 1};
      int count = 0;
      if (driver.activeClusters(&count, nothing, &config) != kSuccess) return counts;
      counts.Set(counts.Length(), toNumber(env, count));
    }
    return counts;
  });
}

Napi::Value CudaDevice::createStream(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    gpu_->enter();
    return toNumber(info.Env(), gpu_->createStream());
  });
}

// A failure is found by whoever waits.
Napi::Value CudaDevice::idle(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    gpu_->enter();
    const Result result = gpu_->driver().queryStream(gpu_->stream(readId(info[0])).handle);
    return Napi::Boolean::New(info.Env(), result != kNotReady);
  });
}

Napi::Value CudaDevice::settled(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    gpu_->enter();
    return gpu_->after(info.Env(), readId(info[0]), nullptr, nullptr, nullptr);
  });
}

Napi::Value CudaDevice::join(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    gpu_->enter();
    gpu_->join(readId(info[0]), readId(info[1]));
    return info.Env().Undefined();
  });
}

Napi::Value CudaDevice::write(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    gpu_->enter();
    const uint32_t id = readId(info[0]);
    const Address to = readAddress(info[1]);
    const Napi::Uint8Array data = readBytes(info[2]);
    const Staging::Buffer pinned = gpu_->staging().take(data.ByteLength());
    if (pinned.memory == nullptr) throw std::bad_alloc();
    std::memcpy(pinned.memory, data.Data(), data.ByteLength());
    const auto give = [gpu = gpu_.get(), pinned](Napi::Env home) -> Napi::Value {
      gpu->staging().give(pinned);
      return home.Undefined();
    };
    const Stream stream = gpu_->stream(id).handle;
    if (const Result result = gpu_->driver().copyToDevice(to, pinned.memory, data.ByteLength(), stream)) {
      give(env);
      gpu_->fail(result, "cuMemcpyHtoDAsync", nullptr);
    }
    return gpu_->after(env, id, nullptr, nullptr, give);
  });
}

Napi::Value CudaDevice::read(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    gpu_->enter();
    const uint32_t id = readId(info[0]);
    const Address from = readAddress(info[1]);
    const size_t bytes = readSize(info[2]);
    Napi::Uint8Array out = Napi::Uint8Array::New(env, bytes);
    const Staging::Buffer pinned = gpu_->staging().take(bytes);
    if (pinned.memory == nullptr) throw std::bad_alloc();
    const Stream stream = gpu_->stream(id).handle;
    if (const Result result = gpu_->driver().copyFromDevice(pinned.memory, from, bytes, stream)) {
      gpu_->staging().give(pinned);
      gpu_->fail(result, "cuMemcpyDtoHAsync", nullptr);
    }
    auto kept = std::make_shared<Napi::ObjectReference>(Napi::Persistent(out.As<Napi::Object>()));
    const auto away = [to = out.Data(), pinned, bytes] { std::memcpy(to, pinned.memory, bytes); };
    return gpu_->after(env, id, nullptr, away, [gpu = gpu_.get(), pinned, kept](Napi::Env) -> Napi::Value {
      gpu->staging().give(pinned);
      return kept->Value();
    });
  });
}

Napi::Value CudaDevice::writeNow(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    gpu_->enter();
    const Napi::Uint8Array data = readBytes(info[1]);
    gpu_->copyIn(readAddress(info[0]), data.Data(), data.ByteLength());
    return info.Env().Undefined();
  });
}

Napi::Value CudaDevice::readNow(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    gpu_->enter();
    const Address from = readAddress(info[0]);
    Napi::Uint8Array out = Napi::Uint8Array::New(env, readSize(info[1]));
    auto kept = std::make_shared<Napi::ObjectReference>(Napi::Persistent(out.As<Napi::Object>()));
    const auto home = [kept](Napi::Env) -> Napi::Value { return kept->Value(); };
    return gpu_->copyOut(env, out.Data(), from, out.ByteLength(), home);
  });
}

Napi::Value CudaDevice::fill(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    gpu_->enter();
    const Stream stream = gpu_->stream(readId(info[0])).handle;
    const auto byte = static_cast<unsigned char>(readNumber(info[2], 255));
    const Address to = readAddress(info[1]);
    gpu_->check(gpu_->driver().fill(to, byte, readSize(info[3]), stream), "cuMemsetD8Async");
    return info.Env().Undefined();
  });
}

// (type, address, dims, strides, box, steps, [interleave, swizzle, l2Promotion, oobFill]), numbers of the
// driver's enums: what runtime/tensors/tensor_map.ts is compared with.
Napi::Value CudaDevice::encodeTensorMap(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    gpu_->enter();
    const auto list = [](const Napi::Value& value, auto& out) {
      const Napi::Array array = value.As<Napi::Array>();
      for (uint32_t i = 0; i < array.Length() && i < std::size(out); ++i)
        out[i] = static_cast<std::remove_reference_t<decltype(out[0])>>(readSize(array.Get(i)));
      return array.Length();
    };
    alignas(128) uint8_t map[128] = {};
    uint64_t dims[5] = {}, strides[5] = {};
    uint32_t box[5] = {}, steps[5] = {};
    int modes[4] = {};
    const uint32_t rank = list(info[2], dims);
    list(info[3], strides);
    list(info[4], box);
    list(info[5], steps);
    list(info[6], modes);
    auto* address = reinterpret_cast<void*>(readAddress(info[1]));
    const Result result =
        gpu_->driver().tensorMap(map, static_cast<int>(readId(info[0])), rank, address, dims, strides, box, steps,
                                 modes[0], modes[1], modes[2], modes[3]);
    gpu_->check(result, "cuTensorMapEncodeTiled");
    Napi::Uint8Array bytes = Napi::Uint8Array::New(env, sizeof map);
    std::memcpy(bytes.Data(), map, sizeof map);
    return bytes;
  });
}

// Relaxed: memory may be allocated while kernels are recorded.
Napi::Value CudaDevice::beginCapture(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    gpu_->enter();
    const Stream stream = gpu_->stream(readId(info[0])).handle;
    gpu_->check(gpu_->driver().beginCapture(stream, kCaptureRelaxed), "cuStreamBeginCapture");
    return info.Env().Undefined();
  });
}

Napi::Value CudaDevice::abortCapture(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    gpu_->makeCurrent();
    GraphTemplate graph = nullptr;
    if (gpu_->driver().endCapture(gpu_->stream(readId(info[0])).handle, &graph) == kSuccess && graph != nullptr)
      gpu_->driver().destroyGraph(graph);
    return info.Env().Undefined();
  });
}

Napi::Value CudaDevice::close(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    gpu_->close();
    return info.Env().Undefined();
  });
}

}  // namespace ktl::cuda
