#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace dptrain {

/// Threads that load samples of a batch side by side: that of the caller and some more, which sleep in between. Used by
/// one thread.
class SampleThreads {
 public:
  /// `count`: with the caller's. Throws 71 where the system doesn't start so many.
  explicit SampleThreads(int count);
  ~SampleThreads();
  SampleThreads(const SampleThreads&) = delete;
  SampleThreads& operator=(const SampleThreads&) = delete;

  /// Calls `load` for samples 0 to count - 1, each once, in runs from begin to end - 1 of at most `at_a_time`; of
  /// several threads at once. Blocks until all are loaded; throws what one of them threw, once all have ended.
  using Load = std::function<void(int64_t begin, int64_t end)>;
  void run(int64_t count, int64_t at_a_time, const Load& load);

 private:
  struct Round;
  void serve();
  void end();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Round> round_;  ///< that is under way
  bool leaving_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dptrain
