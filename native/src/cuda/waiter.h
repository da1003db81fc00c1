// Waiting away from the event loop: one thread for each stream that is waited for, and one channel back to
// JS.
#pragma once
#include <napi.h>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include "driver.h"

namespace ktl::cuda {

struct Job {
  Event event = nullptr;                         // null: nothing to wait for
  bool asks = false;                             // the event is not one that a thread can sleep on
  std::function<void()> away;                    // on the waiter's thread, once the event was reached
  std::function<void(Napi::Env, Result)> home;   // on the JS thread; never with an environment that goes away
  Result result = kSuccess;
};

class Waiter;

// Back to the JS thread. While jobs are pending the process stays alive. When the environment goes away
// first, it waits for the threads: after that nothing may be sent.
class Channel {
 public:
  explicit Channel(Napi::Env env);
  // On the JS thread.
  void begin(Napi::Env env);
  void attach(Waiter* waiter);
  void detach(Waiter* waiter);
  void close();
  // On a thread that is attached. false: the environment goes away, and the thread has to end.
  bool send(std::unique_ptr<Job> job);

 private:
  struct State;
  static void onJob(Napi::Env env, Napi::Function, State* state, Job* job);
  static void onEnd(Napi::Env env, void*, State* state);
  using Function = Napi::TypedThreadSafeFunction<State, Job, &Channel::onJob>;
  std::shared_ptr<State> state_;
};

class Waiter {
 public:
  Waiter(const Driver& driver, Context context, std::shared_ptr<Channel> channel);
  ~Waiter();
  void add(std::unique_ptr<Job> job);
  void stop();  // after the jobs it has; again is harmless

 private:
  void run();
  Result ask(Event event) const;

  const Driver& driver_;
  Context context_;
  std::shared_ptr<Channel> channel_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Job>> jobs_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace ktl::cuda
