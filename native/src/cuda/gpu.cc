#include "gpu.h"
#include <algorithm>
#include <cstring>

namespace ktl::cuda {
namespace {

// Errors after which no call of the context works any more (CUDA driver API, CUresult).
bool destroysContext(Result result) {
  constexpr Result kSticky[] = {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721};
  return std::find(std::begin(kSticky), std::end(kSticky), result) != std::end(kSticky);
}

}  // namespace

std::shared_ptr<Gpu> Gpu::open(Napi::Env env, const std::string& driverPath, uint32_t ordinal) {
  const DriverStatus& status = loadDriver(driverPath);
  if (status.driver == nullptr) throw CudaFault{Code::NoDevice, status.reason};
  const Driver& driver = *status.driver;
  if (ordinal >= static_cast<uint32_t>(driver.devices))
    throw CudaFault{Code::NoDevice, "this machine has " + std::to_string(driver.devices) +
                                        (driver.devices == 1 ? " GPU, cuda:0" : " GPUs, numbered from 0")};
  std::shared_ptr<Gpu> gpu(new Gpu(driver, ordinal));
  const auto opened = [&](Result result, const char* what) {
    if (result != kSuccess)
      throw CudaFault{Code::NoDevice, std::string(what) + ": " + driver.describe(result)};
  };
  opened(driver.deviceGet(&gpu->device_, static_cast<int>(ordinal)), "cuDeviceGet");
  opened(driver.retainContext(&gpu->context_, gpu->device_), "cuDevicePrimaryCtxRetain");
  opened(driver.setContext(gpu->context_), "cuCtxSetCurrent");
  gpu->channel_ = std::make_shared<Channel>(env);
  gpu->createStream();  // 0, the default stream
  gpu->copyStream_ = gpu->createStream();
  return gpu;
}

Gpu::~Gpu() {
  close();
  if (context_ != nullptr) driver_.releaseContext(device_);
}

void Gpu::close() {
  if (closed_ || context_ == nullptr) return;
  closed_ = true;
  makeCurrent();
  for (const auto& stream : streams_) {
    stream->waiter.reset();
    driver_.destroyStream(stream->handle);
  }
  for (const Event event : events_) driver_.destroyEvent(event);
  streams_.clear();
  events_.clear();
  staging_.clear();
  if (channel_) channel_->close();
  channel_.reset();
}

void Gpu::fail(Result result, const char* what, const char* kernel) {
  const std::string text = driver_.describe(result);
  if (result == kOutOfMemory) throw CudaFault{Code::OutOfMemory, std::string(what) + ": " + text};
  if (!destroysContext(result)) {
    const std::string subject = kernel == nullptr ? "" : std::string(" of ") + kernel;
    throw CudaFault{Code::Refused, std::string(what) + subject + ": " + text};
  }
  lost_ = "device cuda:" + std::to_string(ordinal_) + " cannot be used any more: " + suspects() + text;
  throw CudaFault{Code::Lost, lost_};
}

// Errors of kernels are found by the call that waits for them: they name what has been launched since the
// last wait.
std::string Gpu::suspects() const {
  std::set<std::string> names;
  for (const auto& stream : streams_) {
    const RecentLaunches& recent = stream->recent;
    for (size_t i = 0; i < std::min(recent.count, RecentLaunches::kCapacity); ++i)
      names.insert(recent.names[i]);
  }
  if (names.empty()) return "";
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return (names.size() == 1 ? "kernel " : "one of the kernels ") + list + ": ";
}

int Gpu::attribute(DeviceAttribute attribute) {
  int value = 0;
  return driver_.deviceAttribute(&value, attribute, device_) == kSuccess ? value : 0;
}

uint32_t Gpu::createStream() {
  auto stream = std::make_unique<GpuStream>();
  check(driver_.createStream(&stream->handle, kStreamNonBlocking), "cuStreamCreate");
  streams_.push_back(std::move(stream));
  return static_cast<uint32_t>(streams_.size() - 1);
}

GpuStream& Gpu::stream(uint32_t id) {
  if (id >= streams_.size()) throw CudaFault{Code::Refused, "no such stream"};
  return *streams_[id];
}

Event Gpu::takeEvent() {
  Event event = nullptr;
  if (events_.empty()) {
    check(driver_.createEvent(&event, kEventBlockingSync | kEventDisableTiming), "cuEventCreate");
    return event;
  }
  event = events_.back();
  events_.pop_back();
  return event;
}

void Gpu::join(uint32_t id, uint32_t other) {
  const Event event = takeEvent();
  check(driver_.recordEvent(event, stream(other).handle), "cuEventRecord");
  check(driver_.waitEvent(stream(id).handle, event, 0), "cuStreamWaitEvent");
  giveEvent(event);  // the wait keeps what was recorded
}

Napi::Promise Gpu::after(Napi::Env env, uint32_t id, Event given, std::function<void()> away, Home home) {
  GpuStream& on = stream(id);
  Event event = given;
  if (event == nullptr) {
    event = takeEvent();
    check(driver_.recordEvent(event, on.handle), "cuEventRecord");
  }
  auto deferred = std::make_shared<Napi::Promise::Deferred>(Napi::Promise::Deferred::New(env));
  auto job = std::make_unique<Job>();
  job->event = event;
  job->asks = given != nullptr;
  job->away = std::move(away);
  job->home = [self = shared_from_this(), id, event, pooled = given == nullptr, launches = on.recent.launches,
               home, deferred](Napi::Env jobEnv, Result result) {
    try {
      const Napi::Value value = home ? home(jobEnv) : jobEnv.Undefined();
      if (self->closed_) return deferred->Resolve(value);
      if (pooled) self->giveEvent(event);
      self->check(result, "waiting for the stream");
      RecentLaunches& recent = self->stream(id).recent;
      if (recent.launches == launches) recent.count = 0;
      deferred->Resolve(value);
    } catch (const CudaFault& fault) {
      deferred->Reject(toError(jobEnv, fault).Value());
    }
  };
  if (!on.waiter) on.waiter = std::make_unique<Waiter>(driver_, context_, channel_);
  channel_->begin(env);
  on.waiter->add(std::move(job));
  return deferred->Promise();
}

void Gpu::copyIn(Address to, const void* from, size_t bytes) {
  const size_t unit = std::min(bytes, Staging::kLargest / 4);
  Staging::Buffer pinned[2] = {staging_.take(unit), staging_.take(unit)};
  Event done[2] = {takeEvent(), takeEvent()};
  const Stream stream = streams_[copyStream_]->handle;
  Result result = pinned[0].memory && pinned[1].memory ? kSuccess : kOutOfMemory;
  for (size_t at = 0, i = 0; at < bytes && result == kSuccess; at += unit, ++i) {
    const size_t part = std::min(unit, bytes - at);
    if (i >= 2) result = driver_.synchronizeEvent(done[i % 2]);
    if (result != kSuccess) break;
    std::memcpy(pinned[i % 2].memory, static_cast<const char*>(from) + at, part);
    result = driver_.copyToDevice(to + at, pinned[i % 2].memory, part, stream);
    if (result == kSuccess) result = driver_.recordEvent(done[i % 2], stream);
  }
  if (result == kSuccess) result = driver_.synchronizeStream(stream);
  for (const Event event : done) giveEvent(event);
  for (const Staging::Buffer& buffer : pinned)
    if (buffer.memory) staging_.give(buffer);
  check(result, "copying to the device");
}

Napi::Promise Gpu::copyOut(Napi::Env env, void* to, Address from, size_t bytes, Home home) {
  struct Copy {
    Staging::Buffer pinned[2];
    Event done[2];
    Result result = kSuccess;
  };
  auto copy = std::make_shared<Copy>();
  const size_t unit = std::min(bytes, Staging::kLargest / 4);
  for (int i = 0; i < 2; ++i) {
    copy->pinned[i] = staging_.take(unit);
    copy->done[i] = takeEvent();
    if (copy->pinned[i].memory == nullptr) copy->result = kOutOfMemory;
  }
  const auto away = [this, copy, to, from, bytes, unit, stream = streams_[copyStream_]->handle] {
    const size_t parts = (bytes + unit - 1) / unit;
    // One part is on its way while the one before it is copied out of pinned memory.
    for (size_t i = 0; i <= parts && copy->result == kSuccess; ++i) {
      if (i < parts) {
        const size_t at = i * unit;
        const size_t part = std::min(unit, bytes - at);
        copy->result = driver_.copyFromDevice(copy->pinned[i % 2].memory, from + at, part, stream);
        if (copy->result == kSuccess) copy->result = driver_.recordEvent(copy->done[i % 2], stream);
      }
      if (i == 0 || copy->result != kSuccess) continue;
      const size_t at = (i - 1) * unit;
      copy->result = driver_.synchronizeEvent(copy->done[(i - 1) % 2]);
      if (copy->result == kSuccess)
        std::memcpy(static_cast<char*>(to) + at, copy->pinned[(i - 1) % 2].memory,
                    std::min(unit, bytes - at));
    }
  };
  const auto finish = [this, copy, home](Napi::Env homeEnv) {
    for (int i = 0; i < 2 && !closed_; ++i) {
      giveEvent(copy->done[i]);
      if (copy->pinned[i].memory) staging_.give(copy->pinned[i]);
    }
    check(copy->result, "copying from the device");
    return home(homeEnv);
  };
  return after(env, copyStream_, nullptr, away, finish);
}

}  // namespace ktl::cuda
