#include "addon_launch.h"
#include <optional>
#include "addon_result.h"
#include "addon_values.h"

namespace ktl::addon {
namespace {

constexpr auto kProgressInterval = std::chrono::milliseconds(50);
constexpr double kMaxThreads = 1024;

// The value that goes with a word, from a table of words.
template <class Value, size_t N>
Value readWord(Napi::Env env, const Napi::Value& value, const char* name,
               const std::pair<const char*, Value> (&words)[N]) {
  const std::string word = readString(env, value, name);
  std::string known;
  for (const auto& [text, meaning] : words) {
    if (word == text) return meaning;
    known += (known.empty() ? "'" : " or '") + std::string(text) + "'";
  }
  misuse(env, std::string(name) + ": expected " + known);
}

}  // namespace

// Progress, what the kernel printed, or (with a result or an error) the end.
struct LaunchTask::Message {
  uint64_t done = 0, total = 0;
  std::string printed;
  std::optional<LaunchResult> result;
  std::optional<Fault> fault;
};

LaunchTask::LaunchTask(Napi::Env env, std::shared_ptr<const LoadedModule> module, std::string entry)
    : deferred_(Napi::Promise::Deferred::New(env)), module_(std::move(module)), memory_(module_->view()),
      entry_(std::move(entry)) {}

Napi::Promise LaunchTask::start(Napi::Env env, std::shared_ptr<const LoadedModule> module, std::string entry,
                                const Napi::Object& launch) {
  std::unique_ptr<LaunchTask> task(new LaunchTask(env, std::move(module), std::move(entry)));
  const Napi::Promise promise = task->deferred_.Promise();
  task->readConfig(env, launch);
  task->readCallbacks(env, launch);
  checkLaunch(task->module_->module(), task->entry_, task->config_);
  // The finalizer runs on the JS thread when the thread let go of the channel, or when the environment goes away
  // in the middle of a launch: it ends and joins the thread before the channel's memory is freed.
  task->channel_ = Channel::New(
      env, "ktl launch", 0, 1, task.get(),
      [](Napi::Env, void*, LaunchTask* finished) {
        finished->stop();
        if (finished->thread_.joinable()) finished->thread_.join();
        delete finished;
      },
      static_cast<void*>(nullptr));
  LaunchTask* running = task.release();
  try {
    running->thread_ = std::thread([running] { running->run(); });
  } catch (const std::system_error&) {
    running->channel_.Release();
    throw Fault{Code::OutOfMemory, "the host cannot start another thread"};
  }
  return promise;
}

void LaunchTask::readConfig(Napi::Env env, const Napi::Object& launch) {
  using Order = LaunchConfig::Order;
  using Checks = LaunchConfig::Checks;
  using TensorCores = LaunchConfig::TensorCores;
  static constexpr std::pair<const char*, Order> kOrders[] = {
      {"lazy", Order::Lazy}, {"eager", Order::Eager}, {"random", Order::Random}};
  static constexpr std::pair<const char*, Checks> kChecks[] = {
      {"none", Checks::None}, {"default", Checks::Default}, {"full", Checks::Full}};
  static constexpr std::pair<const char*, TensorCores> kTensorCores[] = {{"target", TensorCores::ByTarget},
                                                                         {"exact", TensorCores::Exact},
                                                                         {"silicon", TensorCores::Silicon}};
  config_.grid = readExtents(env, launch.Get("grid"), "grid");
  config_.block = readExtents(env, launch.Get("block"), "block");
  config_.cluster = readExtents(env, launch.Get("cluster"), "cluster");
  if (const Napi::Value preferred = launch.Get("preferredCluster"); !preferred.IsUndefined())
    config_.preferredCluster = readExtents(env, preferred, "preferredCluster");
  config_.dynamicSharedBytes =
      static_cast<uint32_t>(readInteger(env, launch.Get("sharedMemBytes"), "sharedMemBytes", UINT32_MAX));
  const Napi::Uint8Array params = readBytes(env, launch.Get("params"), "params");
  if (params.ByteLength() > 0) config_.params.assign(params.Data(), params.Data() + params.ByteLength());
  config_.order = readWord(env, launch.Get("order"), "order", kOrders);
  config_.seed = readInteger(env, launch.Get("seed"), "seed");
  config_.checks = readWord(env, launch.Get("checks"), "checks", kChecks);
  config_.instructionBudget = readInteger(env, launch.Get("instructionBudget"), "instructionBudget");
  if (const Napi::Value budget = launch.Get("warpInstructionBudget"); !budget.IsUndefined())
    config_.warpInstructionBudget = readInteger(env, budget, "warpInstructionBudget");
  config_.threads = static_cast<uint32_t>(readInteger(env, launch.Get("threads"), "threads", kMaxThreads));
  if (const Napi::Value cores = launch.Get("tensorCores"); !cores.IsUndefined())
    config_.tensorCores = readWord(env, cores, "tensorCores", kTensorCores);
  config_.trace = readBoolean(env, launch.Get("trace"), "trace");
  if (const Napi::Value cooperative = launch.Get("cooperative"); !cooperative.IsUndefined())
    config_.cooperative = readBoolean(env, cooperative, "cooperative");
}

void LaunchTask::readCallbacks(Napi::Env env, const Napi::Object& launch) {
  if (const Napi::Value cancel = launch.Get("cancel"); !cancel.IsUndefined()) {
    const bool words =
        cancel.IsTypedArray() && cancel.As<Napi::TypedArray>().TypedArrayType() == napi_int32_array;
    // Plain buffers can be detached while the launch runs.
    if (!words || cancel.As<Napi::Int32Array>().ElementLength() == 0 ||
        cancel.As<Napi::Object>().Get("buffer").IsArrayBuffer())
      misuse(env, "cancel: expected an Int32Array of at least one element over a SharedArrayBuffer");
    cancel_ = reinterpret_cast<std::atomic<int32_t>*>(cancel.As<Napi::Int32Array>().Data());
    cancelArray_ = Napi::Persistent(cancel.As<Napi::Object>());
  }
  config_.cancel = cancel_;
  if (const Napi::Value onPrint = launch.Get("onPrint"); !onPrint.IsUndefined()) {
    if (!onPrint.IsFunction()) misuse(env, "onPrint: expected a function");
    onPrint_ = Napi::Persistent(onPrint.As<Napi::Function>());
    config_.print = [this](const std::string& text) {
      if (closed_) return;
      auto message = std::make_unique<Message>();
      message->printed = text;
      send(std::move(message));
    };
  }
  const Napi::Value onProgress = launch.Get("onProgress");
  if (onProgress.IsUndefined()) return;
  if (!onProgress.IsFunction()) misuse(env, "onProgress: expected a function");
  onProgress_ = Napi::Persistent(onProgress.As<Napi::Function>());
  config_.progress = [this](uint64_t done, uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (closed_ || now - lastProgress_ < kProgressInterval) return;
    lastProgress_ = now;
    auto message = std::make_unique<Message>();
    message->done = done;
    message->total = total;
    send(std::move(message));
  };
}

void LaunchTask::run() {
  auto message = std::make_unique<Message>();
  try {
    message->result = module_->launch(entry_, config_, std::move(memory_));
  } catch (const Fault& fault) {
    message->fault = fault;
  } catch (const std::exception& error) {
    message->fault = Fault{Code::OutOfMemory, std::string("the launch could not go on: ") + error.what()};
  }
  // Once a call says that the channel is closing, it may be freed as soon as this thread ends: no release then.
  if (!closed_ && send(std::move(message))) channel_.Release();
}

bool LaunchTask::send(std::unique_ptr<Message> message) {
  if (channel_.NonBlockingCall(message.get()) != napi_ok) {
    closed_ = true;
    return false;
  }
  message.release();  // onMessage owns it
  return true;
}

// Asks the machine to give up. A caller's own flag is used up by that: the launch it belongs to is lost.
void LaunchTask::stop() { cancel_->store(1); }

void LaunchTask::onMessage(Napi::Env env, Napi::Function, LaunchTask* task, Message* raw) {
  const std::unique_ptr<Message> message(raw);
  if (env == nullptr) return;  // the environment is going away
  const Napi::HandleScope scope(env);
  if (!message->result && !message->fault) {
    if (!task->callbackError_.IsEmpty()) return;
    try {
      if (!message->printed.empty())
        task->onPrint_.Call({Napi::String::New(env, message->printed)});
      else
        task->onProgress_.Call({Napi::Number::New(env, static_cast<double>(message->done)),
                                Napi::Number::New(env, static_cast<double>(message->total))});
    } catch (const Napi::Error& error) {
      task->callbackError_ = error;
      task->stop();
    }
    return;
  }
  if (!task->callbackError_.IsEmpty()) task->deferred_.Reject(task->callbackError_.Value());
  else if (message->fault) task->deferred_.Reject(toError(env, *message->fault).Value());
  else task->deferred_.Resolve(toLaunchResult(env, *message->result, task->config_.trace));
}

}  // namespace ktl::addon
