#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dptrain::parallel {

/// Threads that all run the same work, round by round. A thread that has finished a round begins the next one at once
/// if it has been given. Only a caller of `wait`, `finish` or `run` waits for all threads.
class WorkerThreads {
 public:
  using Work = std::function<void(int worker)>;

  /// Throws an error with exit code 71 if the system can't start so many threads.
  explicit WorkerThreads(int count);
  /// Waits for all rounds that were given.
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  /// Gives every thread a round of work. The work must not throw. Returns the round's number, from 1.
  int64_t give(Work work);
  /// Blocks until all threads have finished round `number`, or until `gives_up` returns true; it is called four times a
  /// second. Returns false if it gave up. When the threads have finished, everything that the round's work held has
  /// been released.
  bool wait(int64_t number, const std::function<bool()>& gives_up = {});
  /// Waits like `wait` for all given rounds.
  bool finish(const std::function<bool()>& gives_up = {});
  /// Gives a round and waits for it. Blocks.
  void run(Work work) { wait(give(std::move(work))); }

 private:
  struct Round {
    Work work;
    int unfinished = 0;
    bool done = false;
  };

  bool wait_until(const std::function<bool()>& is_done, const std::function<bool()>& gives_up);
  void serve(int worker);
  void end_threads();

  std::mutex mutex_;
  std::condition_variable given_;
  std::condition_variable done_;
  std::deque<Round> rounds_;  ///< given but not finished by all threads, oldest first
  int64_t finished_ = 0;      ///< number of rounds before `rounds_`
  bool leaving_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dptrain::parallel
