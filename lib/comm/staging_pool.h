#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace dptrain {

/// Reusable memory for operations between processes, which need the same sizes step after step. Memory that one
/// operation gives back serves the next, so its pages are first written to only once. Any thread may use it.
class StagingPool : public std::enable_shared_from_this<StagingPool> {
 public:
  static std::shared_ptr<StagingPool> make() { return std::shared_ptr<StagingPool>(new StagingPool()); }

  class GiveBack {
   public:
    GiveBack() = default;
    GiveBack(std::shared_ptr<StagingPool> pool, int64_t bytes) : pool_(std::move(pool)), bytes_(bytes) {}
    void operator()(std::byte* memory) const { pool_->give_back(memory, bytes_); }

   private:
    std::shared_ptr<StagingPool> pool_;
    int64_t bytes_ = 0;
  };
  using Memory = std::unique_ptr<std::byte[], GiveBack>;

  /// Returns at least `bytes` bytes of any content. They go back to the pool when the result is destroyed.
  Memory take(int64_t bytes);

 private:
  StagingPool() = default;
  void give_back(std::byte* memory, int64_t bytes);

  std::mutex mutex_;
  std::multimap<int64_t, std::unique_ptr<std::byte[]>> free_;  ///< by size
};

}  // namespace dptrain
