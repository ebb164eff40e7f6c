#include "parallel/worker_threads.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace dptrain::parallel {

WorkerThreads::WorkerThreads(int count) {
  try {
    for (int worker = 0; worker < count; ++worker) threads_.emplace_back([this, worker] { serve(worker); });
  } catch (const std::system_error& error) {
    const size_t started = threads_.size();
    end_threads();
    throw Error(ExitCode::device,
                Mistake{.where = "threads that compute",
                        .expected = fmt::format("expected the system to start {}", count),
                        .got = fmt::format("{} ({})", started, error.code().message()),
                        .advice = "use fewer devices, or allow more threads (ulimit -u) or address space (ulimit -v)"});
  }
}

WorkerThreads::~WorkerThreads() { end_threads(); }

void WorkerThreads::end_threads() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  given_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

int64_t WorkerThreads::give(Work work) {
  int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    rounds_.push_back({.work = std::move(work), .unfinished = size()});
    number = finished_ + static_cast<int64_t>(rounds_.size());
  }
  given_.notify_all();
  return number;
}

bool WorkerThreads::wait(int64_t number, const std::function<bool()>& gives_up) {
  return wait_until([&] { return finished_ >= number; }, gives_up);
}

bool WorkerThreads::finish(const std::function<bool()>& gives_up) {
  return wait_until([&] { return rounds_.empty(); }, gives_up);
}

bool WorkerThreads::wait_until(const std::function<bool()>& is_done, const std::function<bool()>& gives_up) {
  std::unique_lock lock(mutex_);
  // The work itself has no deadline; waits between its threads have their own.
  while (!done_.wait_for(lock, std::chrono::milliseconds(250), is_done))
    if (gives_up && gives_up()) return false;
  return true;
}

void WorkerThreads::serve(int worker) {
  for (int64_t number = 1;; ++number) {
    Round* round = nullptr;
    {
      std::unique_lock lock(mutex_);
      const auto is_given = [&] { return number <= finished_ + static_cast<int64_t>(rounds_.size()); };
      given_.wait(lock, [&] { return leaving_ || is_given(); });
      if (!is_given()) return;
      // The round stays in place until this thread has finished it, whatever is given meanwhile.
      round = &rounds_[static_cast<size_t>(number - finished_ - 1)];
    }
    round->work(worker);
    {
      const std::lock_guard lock(mutex_);
      if (--round->unfinished > 0) continue;
    }
    // What the work held is released outside the lock, and before anyone learns that the round is done.
    round->work = nullptr;
    const std::lock_guard lock(mutex_);
    round->done = true;
    for (; !rounds_.empty() && rounds_.front().done; ++finished_) rounds_.pop_front();
    done_.notify_all();
  }
}

}  // namespace dptrain::parallel
