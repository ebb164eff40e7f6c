#include "data/sample_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <system_error>

#include "base/error.h"

namespace dptrain {

/// One call of `run`. A thread leaves the round when no run of samples is left to take.
struct SampleThreads::Round {
  int64_t count;
  int64_t at_a_time;
  const Load* load;
  int64_t next = 0;
  int loading = 0;  ///< threads inside `load`
  std::exception_ptr failure = {};
  int64_t failed_at = 0;  ///< where the run that failed begins

  bool is_taken() const { return next >= count || failure != nullptr; }
  /// Takes runs until none is left. The lock is held except while a run is loaded.
  void take(std::unique_lock<std::mutex>& lock) {
    while (!is_taken()) {
      const int64_t begin = next;
      next = std::min(count, begin + at_a_time);
      const int64_t end = next;
      ++loading;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        (*load)(begin, end);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      --loading;
      // If several runs fail, the first one in the order of samples counts: when a run fails, all earlier runs have
      // been taken already.
      if (!thrown || (failure && failed_at < begin)) continue;
      failure = thrown;
      failed_at = begin;
    }
  }
};

void SampleThreads::start() {
  threads_.reserve(static_cast<size_t>(count_));
  try {
    while (static_cast<int>(threads_.size()) + 1 < count_) threads_.emplace_back([this] { serve(); });
  } catch (const std::system_error& error) {
    throw Error(ExitCode::device,
                fmt::format("loader_threads: expected {} threads that load samples, could start {} ({}); use fewer",
                            count_, threads_.size() + 1, error.what()));
  }
}

SampleThreads::~SampleThreads() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void SampleThreads::run(int64_t count, int64_t at_a_time, const Load& load) {
  // Waking a thread takes about as long as loading one run.
  if (count_ == 1 || count <= at_a_time) return load(0, count);
  start();
  std::unique_lock lock(mutex_);
  const auto round = std::make_shared<Round>(Round{.count = count, .at_a_time = at_a_time, .load = &load});
  round_ = round;
  changed_.notify_all();
  round->take(lock);
  changed_.wait(lock, [&] { return round->loading == 0; });
  round_ = nullptr;
  if (round->failure) std::rethrow_exception(round->failure);
}

void SampleThreads::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return leaving_ || (round_ != nullptr && !round_->is_taken()); });
    if (leaving_) return;
    const std::shared_ptr<Round> round = round_;
    round->take(lock);
    changed_.notify_all();
  }
}

}  // namespace dptrain
