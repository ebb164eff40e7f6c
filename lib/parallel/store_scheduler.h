#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/process_activity.h"
#include "parallel/worker_threads.h"

namespace dptrain::parallel {

/// What a worker tells the scheduler; both are of one build.
struct StoreTick {
  enum class Kind : int64_t {
    step,  ///< it is about to begin a step
    meet,  ///< it waits for all others to say so too
    end    ///< nothing more comes
  };
  Kind kind = Kind::end;
  int64_t step = 0;
  int64_t signal = 0;  ///< that asks it to stop; 0: none
};

/// What the scheduler answers, to all but the end.
struct StoreAnswer {
  int64_t last_step = 0;  ///< after which all workers stop; 0: not known
};

/// Knows how far each worker of a key-value store is that updates asynchronously: holds back those that are too far
/// ahead of the slowest, finds the step after which all of them stop once one is asked to, and lets them meet. A worker
/// may be as slow as it is: what it is waited for has a deadline only while nobody makes a step.
class StoreScheduler {
 public:
  /// `max_staleness`: steps that a worker may be ahead of the slowest one; nothing: any number. `timeout_s`: how long
  /// one is held back at most while no other one says anything. `activity`: where its threads say what they are at;
  /// outlives it.
  StoreScheduler(std::vector<std::unique_ptr<Communicator>> workers, std::optional<int64_t> max_staleness,
                 double timeout_s, ProcessActivity* activity = nullptr);
  /// Blocks until every worker has ended, or the links have failed.
  ~StoreScheduler() { threads_.finish(); }
  StoreScheduler(const StoreScheduler&) = delete;
  StoreScheduler& operator=(const StoreScheduler&) = delete;

  /// Blocks as the end does. Throws what has ended a thread of it, 75 where the links have failed.
  void wait();

 private:
  void serve(size_t worker) noexcept;
  StoreAnswer answer(size_t worker, const StoreTick& tick);
  bool may_begin(int64_t step) const;
  /// Blocks until `is_true`; the deadline begins anew with whatever another worker says.
  template <class IsTrue>
  void hold(std::unique_lock<std::mutex>& lock, size_t worker, const IsTrue& is_true);

  const std::vector<std::unique_ptr<Communicator>> workers_;
  const std::optional<int64_t> max_staleness_;
  const double timeout_s_;
  std::vector<ProcessActivity::Thread*> places_;  ///< by worker: of its thread

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<int64_t>> steps_;  ///< that each worker is at; nothing once it has ended
  int64_t last_step_ = 0;
  int64_t ticks_ = 0;
  size_t waiting_ = 0;  ///< workers that are where they meet
  int64_t meetings_ = 0;
  std::optional<Error> failure_;
  WorkerThreads threads_;  ///< end first
};

/// A worker's end of it. Its end tells the scheduler that nothing more comes.
class SchedulerLink {
 public:
  explicit SchedulerLink(std::unique_ptr<Communicator> link) : link_(std::move(link)) {}
  ~SchedulerLink();
  SchedulerLink(const SchedulerLink&) = delete;
  SchedulerLink& operator=(const SchedulerLink&) = delete;

  /// Blocks until the worker may begin a step; false where it is to stop before. `signal`: what asks this worker to.
  bool may_begin(int64_t step, int signal);
  /// Blocks until all workers have called it.
  void meet();
  /// Nothing more goes over it; who waits at the other end throws this.
  void abort(const Error& failure);

 private:
  StoreAnswer ask(StoreTick tick);

  std::unique_ptr<Communicator> link_;
};

}  // namespace dptrain::parallel
