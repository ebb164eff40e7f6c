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

/// Watches, on a thread of its own, over work that GPUs of this process do together with those of other processes. A
/// GPU waits for another one forever. The job fails with exit code 75 if a GPU's work isn't done soon after the
/// deadline, or if NCCL reports an error. Once the job has failed, for any reason, the work under way is aborted.
class NcclWatch {
 public:
  /// Time that the job's watchdog and the comparison of the ranks' calls have to find the cause of an NCCL error. Their
  /// message says more than NCCL's.
  static constexpr double kRootCause_s = 12;

  struct Options {
    ProcessExchange& exchange;
    int first_rank = 0;  ///< of this process
    double timeout_s = 300;
  };
  /// Called on the watch's thread.
  struct Hooks {
    /// The error that NCCL reports for the communicator of a place; "" if there is none.
    std::function<std::string(int place)> error_of;
    std::function<void()> abort;
  };
  NcclWatch(const std::vector<Device*>& devices, const Options& options, Hooks hooks);
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  /// Notes that the work `stream` has been given so far, on the device at `place`, must be done in time. Does nothing
  /// while the stream records.
  void expect(int place, cudaStream_t stream);
  /// Whether any such work isn't done yet.
  bool waits(int place);

 private:
  /// Work that a stream has been given.
  struct Given {
    cudaStream_t stream = nullptr;
    CudaEvent earlier = {};
    CudaEvent latest = {};
    bool waits = false;            ///< `earlier` isn't done as far as known
    bool has_latest = false;       ///< more work has been given since
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
  /// How much longer than its deadline a GPU may take. The wait of its rank's thread has the same deadline; its message
  /// also says which call it was and who is missing.
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
