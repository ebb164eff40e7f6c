#include "parallel/store_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "parallel/thread_failure.h"

namespace dptrain::parallel {
namespace {

template <class T>
CommBuffer bytes_of(T& value) {
  return {.data = &value, .elements = sizeof value, .dtype = DType::u8};
}

}  // namespace

StoreScheduler::StoreScheduler(std::vector<std::unique_ptr<Communicator>> workers, std::optional<int64_t> max_staleness,
                               double timeout_s, ProcessActivity* activity)
    : workers_(std::move(workers)),
      max_staleness_(max_staleness),
      timeout_s_(timeout_s),
      steps_(workers_.size(), 0),
      threads_(static_cast<int>(workers_.size())) {
  for (size_t i = 0; i < workers_.size(); ++i)
    places_.push_back(activity != nullptr ? &activity->add_service("the scheduler") : nullptr);
  threads_.give([this](int worker) { serve(static_cast<size_t>(worker)); });
}

void StoreScheduler::wait() {
  threads_.finish();
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
}

void StoreScheduler::serve(size_t worker) noexcept {
  Communicator& link = *workers_[worker];
  const ActivePlace place(places_[worker]);
  try {
    for (;;) {
      StoreTick tick;
      link.receive(bytes_of(tick), 0);
      if (tick.kind == StoreTick::Kind::end) break;
      StoreAnswer to = answer(worker, tick);
      link.send(bytes_of(to), 0);
    }
    const std::lock_guard lock(mutex_);
    steps_[worker].reset();
  } catch (const std::exception&) {
    const Error failure = described("the scheduler of the key-value store", std::current_exception());
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = failure;
    }
    for (const auto& other : workers_) other->abort(failure.what(), failure.code());
  }
  changed_.notify_all();
}

bool StoreScheduler::may_begin(int64_t step) const {
  if (!max_staleness_ || last_step_ > 0) return true;
  return std::ranges::all_of(steps_, [&](const auto& other) { return !other || step - *other <= *max_staleness_; });
}

template <class IsTrue>
void StoreScheduler::hold(std::unique_lock<std::mutex>& lock, size_t worker, const IsTrue& is_true) {
  const WaitForOthers waiting;
  for (int64_t seen = ticks_; !is_true(); seen = ticks_) {
    const auto has_news = [&] { return ticks_ > seen || is_true() || failure_; };
    if (!changed_.wait_until(lock, deadline_in(timeout_s_), has_news))
      throw Error(
          ExitCode::peer_lost,
          fmt::format(
              "worker {} waited for other workers, but none of them has begun a step for {:g} s; has one stopped?",
              worker, timeout_s_));
    if (failure_) throw Error(*failure_);
  }
}

StoreAnswer StoreScheduler::answer(size_t worker, const StoreTick& tick) {
  std::unique_lock lock(mutex_);
  ++ticks_;
  changed_.notify_all();
  if (tick.kind == StoreTick::Kind::meet) {
    const int64_t meetings = meetings_;
    if (++waiting_ == workers_.size()) {
      waiting_ = 0;
      ++meetings_;
    }
    hold(lock, worker, [&] { return meetings_ > meetings; });
    return {};
  }
  steps_[worker] = tick.step;
  if (tick.signal != 0 && last_step_ == 0) {
    // No worker has been allowed a later step, so all can end after this one.
    for (const auto& step : steps_) last_step_ = std::max(last_step_, step.value_or(0));
  }
  hold(lock, worker, [&] { return may_begin(tick.step); });
  return {.last_step = last_step_};
}

SchedulerLink::~SchedulerLink() {
  try {
    StoreTick end;
    link_->send(bytes_of(end), 1);
  } catch (const std::exception&) {
    // The link has failed; the scheduler then ends by itself.
  }
}

bool SchedulerLink::may_begin(int64_t step, int signal) {
  const StoreAnswer answer = ask({.kind = StoreTick::Kind::step, .step = step, .signal = signal});
  return answer.last_step == 0 || step <= answer.last_step;
}

void SchedulerLink::meet() { ask({.kind = StoreTick::Kind::meet}); }

void SchedulerLink::abort(const Error& failure) { link_->abort(failure.what(), failure.code()); }

StoreAnswer SchedulerLink::ask(StoreTick tick) {
  link_->send(bytes_of(tick), 1);
  StoreAnswer answer;
  link_->receive(bytes_of(answer), 1);
  return answer;
}

}  // namespace dptrain::parallel
