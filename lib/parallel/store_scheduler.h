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

/// A message from a worker to the scheduler. Both ends are of the same build.
struct StoreTick {
  enum class Kind : int64_t {
    step,  ///< the worker is about to begin a step
    meet,  ///< the worker waits until all others have sent this, too
    end    ///< nothing more comes
  };
  Kind kind = Kind::end;
  int64_t step = 0;
  int64_t signal = 0;  ///< a signal that asks the worker to stop; 0: none
};

/// The scheduler's answer to every message except `end`.
struct StoreAnswer {
  int64_t last_step = 0;  ///< after this step all workers stop; 0: not known
};

/// Tracks the progress of each worker of an asynchronous key-value store. It holds back workers that are too far ahead
/// of the slowest one. Once a worker is asked to stop, it chooses the step after which all workers stop. It also lets
/// workers wait for each other.
///
/// A worker may be arbitrarily slow: a wait for it has a deadline only while no worker makes a step.
class StoreScheduler {
 public:
  /// `max_staleness`: steps that a worker may be ahead of the slowest one; nothing: any number. `timeout_s`: the
  /// longest time that a worker is held back while no other worker sends anything. `activity`: records what its threads
  /// do; must outlive this object.
  StoreScheduler(std::vector<std::unique_ptr<Communicator>> workers, std::optional<int64_t> max_staleness,
                 double timeout_s, ProcessActivity* activity = nullptr);
  /// Blocks until every worker has ended, or the links have failed.
  ~StoreScheduler() { threads_.finish(); }
  StoreScheduler(const StoreScheduler&) = delete;
  StoreScheduler& operator=(const StoreScheduler&) = delete;

  /// Blocks as the destructor does. Throws the error that ended one of its threads, with exit code 75 if the links have
  /// failed.
  void wait();

 private:
  void serve(size_t worker) noexcept;
  StoreAnswer answer(size_t worker, const StoreTick& tick);
  bool may_begin(int64_t step) const;
  /// Blocks until `is_true`. The deadline starts again whenever another worker sends something.
  template <class IsTrue>
  void hold(std::unique_lock<std::mutex>& lock, size_t worker, const IsTrue& is_true);

  const std::vector<std::unique_ptr<Communicator>> workers_;
  const std::optional<int64_t> max_staleness_;
  const double timeout_s_;
  std::vector<ProcessActivity::Thread*> places_;  ///< by worker: its thread's entry

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<int64_t>> steps_;  ///< by worker: its current step; nothing once it has ended
  int64_t last_step_ = 0;
  int64_t ticks_ = 0;
  size_t waiting_ = 0;  ///< workers that wait in `meet`
  int64_t meetings_ = 0;
  std::optional<Error> failure_;
  WorkerThreads threads_;  ///< ends first
};

/// A worker's end of the scheduler. Its destructor tells the scheduler that nothing more comes.
class SchedulerLink {
 public:
  explicit SchedulerLink(std::unique_ptr<Communicator> link) : link_(std::move(link)) {}
  ~SchedulerLink();
  SchedulerLink(const SchedulerLink&) = delete;
  SchedulerLink& operator=(const SchedulerLink&) = delete;

  /// Blocks until the worker may begin a step; false if it is to stop before that step. `signal`: asks this worker to
  /// stop.
  bool may_begin(int64_t step, int signal);
  /// Blocks until all workers have called it.
  void meet();
  /// Ends the link; whoever waits at the other end throws `failure`.
  void abort(const Error& failure);

 private:
  StoreAnswer ask(StoreTick tick);

  std::unique_ptr<Communicator> link_;
};

}  // namespace dptrain::parallel
