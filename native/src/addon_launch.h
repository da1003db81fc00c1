// A launch in flight: its own thread, a promise, and a way back to the JS thread.
#pragma once
#include <napi.h>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include "virtual/loader.h"

namespace ktl::addon {

// Lives from start() until the thread has ended and was joined on the JS thread.
class LaunchTask {
 public:
  // Reads the NativeLaunch object, checks it against the module and starts the thread. Returns the promise.
  static Napi::Promise start(Napi::Env env, std::shared_ptr<const LoadedModule> module, std::string entry,
                             const Napi::Object& launch);

 private:
  struct Message;
  static void onMessage(Napi::Env env, Napi::Function, LaunchTask* task, Message* message);
  using Channel = Napi::TypedThreadSafeFunction<LaunchTask, Message, &LaunchTask::onMessage>;

  LaunchTask(Napi::Env env, std::shared_ptr<const LoadedModule> module, std::string entry);
  void readConfig(Napi::Env env, const Napi::Object& launch);
  void readCallbacks(Napi::Env env, const Napi::Object& launch);
  void run();                                   // on the launch's thread
  bool send(std::unique_ptr<Message> message);  // false: the environment is going away
  void stop();

  Napi::Promise::Deferred deferred_;
  std::shared_ptr<const LoadedModule> module_;
  std::shared_ptr<const GlobalView> memory_;
  std::string entry_;
  LaunchConfig config_;
  Napi::FunctionReference onProgress_, onPrint_;
  Napi::ObjectReference cancelArray_;  // keeps the shared memory alive
  std::atomic<int32_t> ownCancel_{0};
  std::atomic<int32_t>* cancel_ = &ownCancel_;
  Napi::Error callbackError_;          // what onProgress or onPrint threw
  std::chrono::steady_clock::time_point lastProgress_{};
  Channel channel_;
  bool closed_ = false;                // launch's thread only: the channel must not be touched any more
  std::thread thread_;
};

}  // namespace ktl::addon
