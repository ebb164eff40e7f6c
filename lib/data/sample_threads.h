#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace dptrain {

/// Threads that load the samples of a batch in parallel: the caller's thread and some more. The others are started when
/// there is work for them, and sleep in between. Used by one thread.
class SampleThreads {
 public:
  /// `count` includes the caller's thread.
  explicit SampleThreads(int count) : count_(count) {}
  ~SampleThreads();
  SampleThreads(const SampleThreads&) = delete;
  SampleThreads& operator=(const SampleThreads&) = delete;

  /// Calls `load` for samples 0 to count - 1, each once, in runs from begin to end - 1 of at most `at_a_time` samples,
  /// on several threads at once. Blocks until all are loaded. If runs fail, throws the exception of the first failed
  /// run, once all runs have ended. Throws 71 if the system can't start so many threads.
  using Load = std::function<void(int64_t begin, int64_t end)>;
  void run(int64_t count, int64_t at_a_time, const Load& load);

 private:
  struct Round;
  void start();
  void serve();

  int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Round> round_;  ///< the round in progress
  bool leaving_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dptrain
