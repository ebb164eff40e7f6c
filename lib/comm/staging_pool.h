#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace dptrain {

/// Memory that operations between processes use for a while, step after step the same sizes: what one gives back
/// another takes, so that pages are written to for the first time once. May be used by any thread.
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

  /// At least so many bytes, of any content; back in the pool when it ends.
  Memory take(int64_t bytes);

 private:
  StagingPool() = default;
  void give_back(std::byte* memory, int64_t bytes);

  std::mutex mutex_;
  std::multimap<int64_t, std::unique_ptr<std::byte[]>> free_;  ///< by size
};

}  // namespace dptrain
