#pragma once

#include <nccl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/exit_code.h"
#include "comm/nccl_watch.h"
#include "comm/process_exchange.h"
#include "device/cuda_device.h"

namespace dptrain {

/// The NCCL communicators of ranks of this process, one a device, by their places among these. Other processes may have
/// ranks of the same world.
///
/// NCCL knows no deadline. What it is asked for is begun and looked at until it is made; where the job or the group
/// fails all of it is aborted, so that no thread waits for a stream any longer.
///
/// Where other processes take part, a GPU that isn't done with what it was given for NCCL may wait for theirs: a thread
/// that waits for it waits for others, as process_activity.h has it. If it hangs by itself, NcclWatch's deadline ends
/// that.
class NcclGroup {
 public:
  struct Options {
    double timeout_s = 300;               ///< of every wait for another rank
    ProcessExchange* exchange = nullptr;  ///< with other processes, where they have ranks of the world
  };
  explicit NcclGroup(const Options& options) : options_(options) {}
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  struct World {
    ncclUniqueId id;
    int first_rank = 0;  ///< of this process
    int ranks = 0;       ///< of all
  };
  static ncclUniqueId make_id();
  /// Forms them; all processes that have ranks of the world do. Throws 71 with NCCL's reason, 75 where that takes
  /// longer than the deadline, the job's failure where it fails meanwhile. Called once.
  void form(const std::vector<Device*>& devices, const World& world);

  /// Takes what a call has returned.
  using Note = std::function<void(ncclResult_t)>;
  /// Begins calls together: each one's result is noted. Returns what the first has failed of.
  static ncclResult_t together(const std::function<void(const Note&)>& begin_all);

  using Begin = std::function<ncclResult_t(ncclComm_t)>;
  /// Begins a call and waits until it is made: given to the GPU, not done there. Throws as `form` does, and what the
  /// group was aborted with.
  void call(int place, const char* name, const Begin& begin_at);
  /// Begins the call of a place.
  using BeginAt = std::function<void(int place, ncclComm_t, const Note&)>;
  /// The same for calls of all places, which may wait for each other.
  void call_at_all(const char* name, const BeginAt& begin_at);
  /// Where other processes take part: what `stream` has been given so far is to be done within the deadline.
  void expect(int place, cudaStream_t stream) {
    if (watch_) watch_->expect(place, stream);
  }

  /// Ends what is under way, on all ranks of this process, and what is called later. The first cause stays.
  void abort(const std::string& cause, ExitCode code) { abort_all({this}, cause, code); }
  /// The same of several, in the time that one takes.
  static void abort_all(const std::vector<NcclGroup*>& groups, const std::string& cause, ExitCode code);

  static void check(ncclResult_t result, const char* call);

 private:
  /// How many communicators are left to end, on threads of their own.
  using Left = std::shared_ptr<std::atomic<size_t>>;
  void start_abort(const std::string& cause, ExitCode code, const Left& left);
  /// Aborts it on a thread of its own.
  static void abort_aside(ncclComm_t comm, const Left& left);
  /// Waits until none is left, no longer than so many seconds.
  static void wait_for(const Left& left, double limit_s);
  /// ncclInProgress until what was begun is made; ncclRemoteError once aborted.
  ncclResult_t state_of(int place);
  /// Calls `begin`, which begins something that has to be finished then.
  void begin(const char* name, const std::function<ncclResult_t()>& begin);
  void finish(int place, const char* what);
  void tell_of_waits(CudaDevice& device, int place);
  /// Of NCCL, or what the job has failed of, if the error's root cause is found in time.
  [[noreturn]] void throw_error(ncclResult_t error, const char* what);
  void finalize();
  [[noreturn]] void throw_failure();

  const Options options_;
  std::mutex mutex_;  ///< held during a call of NCCL, none of which waits
  std::vector<ncclComm_t> comms_;
  std::string cause_;  ///< of having been aborted
  ExitCode code_ = ExitCode::peer_lost;
  Left aborting_;  ///< null: has not been aborted
  std::unique_ptr<NcclWatch> watch_;
  std::vector<std::shared_ptr<const CudaDevice::AroundWaits>> around_waits_;  ///< by place
};

}  // namespace dptrain
