#include "waiter.h"
#include <algorithm>
#include <chrono>

namespace ktl::cuda {

struct Channel::State {
  size_t pending = 0;
  std::set<Waiter*> waiters;
  bool ended = false;  // `function` is gone
  Function function;
  std::shared_ptr<State> self;  // as long as `function` is there
};

Channel::Channel(Napi::Env env) : state_(std::make_shared<State>()) {
  state_->self = state_;
  state_->function =
      Function::New(env, "ktl cuda", 0, 1, state_.get(), &Channel::onEnd, static_cast<void*>(nullptr));
  state_->function.Unref(env);
}

void Channel::begin(Napi::Env env) {
  if (state_->pending++ == 0) state_->function.Ref(env);
}

void Channel::attach(Waiter* waiter) { state_->waiters.insert(waiter); }
void Channel::detach(Waiter* waiter) { state_->waiters.erase(waiter); }

void Channel::close() {
  if (!state_->ended) state_->function.Release();
}

bool Channel::send(std::unique_ptr<Job> job) {
  // From here onJob owns it. With an environment that goes away nobody does: its references may only be
  // dropped there.
  return state_->function.NonBlockingCall(job.release()) == napi_ok;
}

void Channel::onJob(Napi::Env env, Napi::Function, State* state, Job* raw) {
  if (env == nullptr) return;  // the environment is going away
  const std::unique_ptr<Job> job(raw);
  const Napi::HandleScope scope(env);
  if (--state->pending == 0) state->function.Unref(env);
  job->home(env, job->result);
}

// Closed and drained, or the environment goes away in the middle of things: `function` is freed after this.
void Channel::onEnd(Napi::Env, void*, State* state) {
  for (Waiter* waiter : state->waiters) waiter->stop();
  state->ended = true;
  const std::shared_ptr<State> self = std::move(state->self);
}

Waiter::Waiter(const Driver& driver, Context context, std::shared_ptr<Channel> channel)
    : driver_(driver), context_(context), channel_(std::move(channel)) {
  channel_->attach(this);
  thread_ = std::thread([this] { run(); });
}

Waiter::~Waiter() {
  stop();
  channel_->detach(this);
}

void Waiter::stop() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Waiter::add(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void Waiter::run() {
  driver_.setContext(context_);
  for (;;) {
    std::unique_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return ended_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    if (job->event != nullptr) job->result = job->asks ? ask(job->event) : driver_.synchronizeEvent(job->event);
    if (job->result == kSuccess && job->away) job->away();
    if (!channel_->send(std::move(job))) return;
  }
}

// Now and then: synchronising would spin.
Result Waiter::ask(Event event) const {
  using std::chrono::microseconds;
  for (microseconds pause(20);; pause = std::min(2 * pause, microseconds(1000))) {
    const Result result = driver_.queryEvent(event);
    if (result != kNotReady) return result;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace ktl::cuda
