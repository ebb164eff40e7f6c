#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dptrain::parallel {

/// Threads that do the same work each, round by round. A thread that is done with a round begins the next at once if it
/// was given; nobody waits for the others but whoever asks for a round to be done.
class WorkerThreads {
 public:
  using Work = std::function<void(int worker)>;

  /// Throws 71 where the system doesn't start so many.
  explicit WorkerThreads(int count);
  /// Waits for all rounds that were given.
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  /// Gives every thread a round of work, which must not throw; returns its number, from 1.
  int64_t give(Work work);
  /// Blocks until all threads are done with round `number`, or `gives_up`, which is asked four times a second; false
  /// then. What the round's work held has been let go of where they are done.
  bool wait(int64_t number, const std::function<bool()>& gives_up = {});
  /// The same of all that was given.
  bool finish(const std::function<bool()>& gives_up = {});
  /// Gives and waits. Blocks.
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
  std::deque<Round> rounds_;  ///< given and not yet done by all, oldest first
  int64_t finished_ = 0;      ///< rounds before them
  bool leaving_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dptrain::parallel
