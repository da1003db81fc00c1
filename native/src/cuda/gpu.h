// One GPU as one JS thread sees it: the primary context, streams, pinned staging memory, and work that waits
// for a stream away from the event loop. Everything but the bodies of `Job::away` runs on the JS thread.
#pragma once
#include <napi.h>
#include <array>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>
#include "driver.h"
#include "error.h"
#include "staging.h"
#include "waiter.h"

namespace ktl::cuda {

// The kernels last launched on a stream: what a failure found later is about.
struct RecentLaunches {
  static constexpr size_t kCapacity = 4;
  std::array<const char*, kCapacity> names{};
  size_t count = 0;       // of names in all
  uint64_t launches = 0;  // in all

  void add(const char* name) {
    ++launches;
    if (count == 0 || names[(count - 1) % kCapacity] != name) names[count++ % kCapacity] = name;
  }
  const char* last() const { return count == 0 ? "graph" : names[(count - 1) % kCapacity]; }
};

struct GpuStream {
  Stream handle = nullptr;
  RecentLaunches recent;
  std::unique_ptr<Waiter> waiter;  // started by the first wait
};

class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  // Throws CudaFault NoDevice.
  static std::shared_ptr<Gpu> open(Napi::Env env, const std::string& driverPath, uint32_t ordinal);
  ~Gpu();

  const Driver& driver() const { return driver_; }
  DeviceId device() const { return device_; }
  Staging& staging() { return staging_; }
  uint32_t ordinal() const { return ordinal_; }

  // Makes the context current and refuses when the device was lost. Every call starts with it.
  void enter() {
    if (!lost_.empty()) throw CudaFault{Code::Lost, lost_};
    if (closed_) throw CudaFault{Code::Lost, "the device is closed"};
    driver_.setContext(context_);
  }
  void makeCurrent() const { driver_.setContext(context_); }  // also for other threads
  // Throws for everything but success: `what` is the call, `kernel` whom it was for.
  void check(Result result, const char* what, const char* kernel = nullptr) {
    if (result != kSuccess) fail(result, what, kernel);
  }
  [[noreturn]] void fail(Result result, const char* what, const char* kernel);
  int attribute(DeviceAttribute attribute);

  // A name that lives as long as the device.
  const char* intern(const std::string& name) { return names_.insert(name).first->c_str(); }

  uint32_t createStream();
  GpuStream& stream(uint32_t id);
  Event takeEvent();  // without timing, from a pool
  void giveEvent(Event event) { events_.push_back(event); }

  // Later work of stream `id` waits for what is enqueued on the other one now.
  void join(uint32_t id, uint32_t other);
  // Resolves when what is enqueued on the stream now (or `event`, recorded on it before) was reached and
  // `away` has run on a thread of the stream's own. `home` then runs on the JS thread and gives the value;
  // after a failure it runs, too.
  using Home = std::function<Napi::Value(Napi::Env)>;
  Napi::Promise after(Napi::Env env, uint32_t id, Event event, std::function<void()> away, Home home);

  // Blocking copies on a stream of their own, through two pinned buffers in turn.
  void copyIn(Address to, const void* from, size_t bytes);
  Napi::Promise copyOut(Napi::Env env, void* to, Address from, size_t bytes, Home home);

  // Ends the threads, after what they wait for.
  void close();

 private:
  Gpu(const Driver& driver, uint32_t ordinal) : driver_(driver), ordinal_(ordinal), staging_(driver) {}
  std::string suspects() const;

  const Driver& driver_;
  uint32_t ordinal_;
  DeviceId device_ = 0;
  Context context_ = nullptr;
  Staging staging_;
  std::vector<std::unique_ptr<GpuStream>> streams_;
  std::vector<Event> events_;
  std::set<std::string> names_;
  uint32_t copyStream_ = 0;  // id
  std::string lost_;  // why the device cannot be used any more
  bool closed_ = false;
  std::shared_ptr<Channel> channel_;
};

}  // namespace ktl::cuda
