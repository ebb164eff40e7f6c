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

/// The NCCL communicators of this process's ranks, one per device. A rank's place is its position among this process's
/// ranks. Other processes may have ranks of the same world.
///
/// NCCL knows no deadline. So every call to it only begins, and is polled until it is done. If the job or the group
/// fails, everything is aborted, so that no thread keeps waiting for a stream.
///
/// If other processes take part, a GPU with unfinished NCCL work may be waiting for their GPUs. A thread that waits for
/// such a GPU counts as waiting for others (process_activity.h). If the GPU itself hangs, NcclWatch's deadline ends the
/// wait.
class NcclGroup {
 public:
  struct Options {
    double timeout_s = 300;               ///< deadline of every wait for another rank
    ProcessExchange* exchange = nullptr;  ///< set if other processes have ranks of the world
  };
  explicit NcclGroup(const Options& options) : options_(options) {}
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  struct World {
    ncclUniqueId id;
    int first_rank = 0;  ///< first rank of this process
    int ranks = 0;       ///< number of all ranks
  };
  static ncclUniqueId make_id();
  /// Forms the communicators; every process with ranks of the world calls it once. Throws an error with exit code 71
  /// and NCCL's reason, or with exit code 75 if it takes longer than the deadline. Throws the job's failure if the job
  /// fails meanwhile.
  void form(const std::vector<Device*>& devices, const World& world);

  /// Takes the result of a call.
  using Note = std::function<void(ncclResult_t)>;
  /// Begins several calls as one NCCL group, each of which passes its result to a Note. Returns the first failure.
  static ncclResult_t together(const std::function<void(const Note&)>& begin_all);

  using Begin = std::function<ncclResult_t(ncclComm_t)>;
  /// Begins a call and waits until NCCL has given it to the GPU; the GPU may not have run it yet. Throws as `form`
  /// does, and the cause if the group was aborted.
  void call(int place, const char* name, const Begin& begin_at);
  /// Begins the call of a place.
  using BeginAt = std::function<void(int place, ncclComm_t, const Note&)>;
  /// As `call`, for calls of all places, which may wait for each other.
  void call_at_all(const char* name, const BeginAt& begin_at);
  /// If other processes take part: the work that `stream` has been given so far must be done within the deadline.
  void expect(int place, cudaStream_t stream) {
    if (watch_) watch_->expect(place, stream);
  }

  /// Ends the calls under way on all ranks of this process, and all later ones. The first cause stays.
  void abort(const std::string& cause, ExitCode code) { abort_all({this}, cause, code); }
  /// Aborts several groups in the time that one takes.
  static void abort_all(const std::vector<NcclGroup*>& groups, const std::string& cause, ExitCode code);

  static void check(ncclResult_t result, const char* call);

 private:
  /// How many communicators have not been ended yet by their threads.
  using Left = std::shared_ptr<std::atomic<size_t>>;
  void start_abort(const std::string& cause, ExitCode code, const Left& left);
  /// Aborts a communicator on a thread of its own.
  static void abort_aside(ncclComm_t comm, const Left& left);
  /// Waits until no communicator is left, for `limit_s` at most.
  static void wait_for(const Left& left, double limit_s);
  /// ncclInProgress until the last call is made; ncclRemoteError once the group is aborted.
  ncclResult_t state_of(int place);
  /// Calls `begin`, which begins an NCCL call. `finish` must follow.
  void begin(const char* name, const std::function<ncclResult_t()>& begin);
  void finish(int place, const char* what);
  void tell_of_waits(CudaDevice& device, int place);
  /// Throws NCCL's error, or the job's failure if the error's root cause is found in time.
  [[noreturn]] void throw_error(ncclResult_t error, const char* what);
  void finalize();
  [[noreturn]] void throw_failure();

  const Options options_;
  std::mutex mutex_;  ///< held during NCCL calls, none of which waits
  std::vector<ncclComm_t> comms_;
  std::string cause_;  ///< why the group was aborted; "": it was not
  ExitCode code_ = ExitCode::peer_lost;
  Left aborting_;  ///< null: not aborted
  std::unique_ptr<NcclWatch> watch_;
  std::vector<std::shared_ptr<const CudaDevice::AroundWaits>> around_waits_;  ///< by place
};

}  // namespace dptrain
