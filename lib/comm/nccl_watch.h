#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/process_exchange.h"
#include "device/cuda_handles.h"
#include "device/device.h"

namespace dptrain {

/// Looks after what GPUs of this process do together with those of others, on a thread of its own: a GPU waits for
/// another one for ever. The job fails with 75 where what a GPU was given isn't done soon after the deadline, and
/// where NCCL has met with an error; once it has failed, of this or of anything else, what is under way is aborted.
class NcclWatch {
 public:
  /// Within which the watch over the job's processes, and the comparison of the ranks' calls, find what NCCL's error
  /// comes from, and say it better.
  static constexpr double kRootCause_s = 12;

  struct Options {
    ProcessExchange& exchange;
    int first_rank = 0;  ///< of this process
    double timeout_s = 300;
  };
  /// Called on the watch's thread.
  struct Hooks {
    /// What NCCL's communicator of a place has met with; "" where all is well.
    std::function<std::string(int place)> error_of;
    std::function<void()> abort;
  };
  NcclWatch(const std::vector<Device*>& devices, const Options& options, Hooks hooks);
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  /// What `stream` of the device at `place` has been given so far is to be done in time. Nothing while it records.
  void expect(int place, cudaStream_t stream);
  /// Whether some of that isn't done.
  bool waits(int place);

 private:
  /// What a stream has been given.
  struct Given {
    cudaStream_t stream = nullptr;
    CudaEvent earlier = {};
    CudaEvent latest = {};
    bool waits = false;            ///< `earlier` isn't done as far as is known
    bool has_latest = false;       ///< more has been given since
    Clock::time_point since = {};  ///< when `earlier` could begin, at the latest
  };
  struct Place {
    Device* device = nullptr;
    std::string name;  ///< "rank 3 (cuda:1)"
    std::vector<Given> streams;
    std::optional<Clock::time_point> error_since;
  };

  static Given& given_to(Place& place, cudaStream_t stream);
  void run();
  void look_at(int place);
  /// How much longer than its deadline a GPU may take: the wait of its rank's thread has the same deadline, and says
  /// which call it was for and who is missing.
  double grace_s() const;
  void fail(const std::string& sentence);

  const Options options_;
  const Hooks hooks_;
  std::mutex mutex_;
  std::vector<Place> places_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace dptrain
