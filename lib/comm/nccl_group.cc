#include "comm/nccl_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "comm/process_activity.h"

namespace dptrain {
namespace {

/// How long communicators with nothing under way may take to end.
constexpr double kFinalize_s = 5;

/// How long a caller that aborts communicators waits for them to end.
constexpr double kAbort_s = 0.5;

/// Checks a call that may still be in progress after it returns.
void expect_begun(ncclResult_t result, const char* call) {
  if (result != ncclInProgress) NcclGroup::check(result, call);
}

}  // namespace

ncclUniqueId NcclGroup::make_id() {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

void NcclGroup::form(const std::vector<Device*>& devices, const World& world) {
  // The variable would override `blocking`. It is only removed if it is set, because other threads may read the
  // environment.
  if (std::getenv("NCCL_COMM_BLOCKING") != nullptr) ::unsetenv("NCCL_COMM_BLOCKING");
  {
    const std::lock_guard lock(mutex_);
    comms_.resize(devices.size());
    check(ncclGroupStart(), "ncclGroupStart");
    for (size_t place = 0; place < devices.size(); ++place) {
      devices[place]->enter_thread();
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;  // so that no call of ours waits without a deadline
      expect_begun(ncclCommInitRankConfig(&comms_[place], world.ranks, world.id,
                                          world.first_rank + static_cast<int>(place), &config),
                   "ncclCommInitRankConfig");
    }
    expect_begun(ncclGroupEnd(), "ncclGroupEnd");
  }
  for (int place = 0; place < static_cast<int>(devices.size()); ++place) finish(place, "forming the communicators");
  if (options_.exchange == nullptr) return;
  watch_ = std::make_unique<NcclWatch>(
      devices,
      NcclWatch::Options{
          .exchange = *options_.exchange, .first_rank = world.first_rank, .timeout_s = options_.timeout_s},
      NcclWatch::Hooks{.error_of =
                           [this](int place) {
                             const ncclResult_t state = state_of(place);
                             const bool is_well = state == ncclSuccess || state == ncclInProgress;
                             return is_well ? std::string() : ncclGetErrorString(state);
                           },
                       .abort = [this] { abort("the job has failed", ExitCode::peer_lost); }});
  for (size_t place = 0; place < devices.size(); ++place)
    tell_of_waits(CudaDevice::of(*devices[place]), static_cast<int>(place));
}

void NcclGroup::tell_of_waits(CudaDevice& device, int place) {
  around_waits_.push_back(
      std::make_shared<const CudaDevice::AroundWaits>([this, place](const std::function<void()>& wait) {
        std::optional<WaitForOthers> waiting;
        if (watch_->waits(place)) waiting.emplace();
        wait();
      }));
  device.surround_waits(around_waits_.back());
}

NcclGroup::~NcclGroup() {
  around_waits_.clear();
  watch_.reset();
  // After a failure, other processes may not know of it yet and don't end their communicators.
  if (std::uncaught_exceptions() > 0 || (options_.exchange != nullptr && options_.exchange->has_failed()))
    abort("the run has failed", ExitCode::peer_lost);
  // By now the recorded work of aborted communicators is gone. The last calls to end them may have waited for it, and
  // must end before the process does.
  if (cause_.empty())
    finalize();
  else
    wait_for(aborting_, kFinalize_s);
}

void NcclGroup::finalize() {
  for (ncclComm_t comm : comms_)
    if (comm != nullptr) ncclCommFinalize(comm);
  const auto deadline = deadline_in(kFinalize_s);
  const auto left = std::make_shared<std::atomic<size_t>>(0);
  for (ncclComm_t comm : comms_) {
    ncclResult_t state = ncclInProgress;
    while (comm != nullptr && ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress &&
           Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (comm == nullptr) continue;
    if (state == ncclSuccess)
      ncclCommDestroy(comm);
    else
      abort_aside(comm, left);
  }
  wait_for(left, kAbort_s);
}

void NcclGroup::abort_aside(ncclComm_t comm, const Left& left) {
  ++*left;
  std::thread([comm, left] {
    if (comm != nullptr) ncclCommAbort(comm);
    --*left;
  }).detach();
}

void NcclGroup::wait_for(const Left& left, double limit_s) {
  const auto deadline = deadline_in(limit_s);
  while (*left > 0 && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

ncclResult_t NcclGroup::state_of(int place) {
  const std::lock_guard lock(mutex_);
  if (!cause_.empty()) return ncclRemoteError;
  ncclResult_t state = ncclInProgress;
  check(ncclCommGetAsyncError(comms_[static_cast<size_t>(place)], &state), "ncclCommGetAsyncError");
  return state;
}

void NcclGroup::finish(int place, const char* what) {
  const auto begun = Clock::now();
  const WaitForOthers waiting;
  ncclResult_t state = ncclInProgress;
  while ((state = state_of(place)) == ncclInProgress) {
    if (options_.exchange != nullptr && options_.exchange->has_failed()) throw_failure();
    if (seconds_since(begun) > options_.timeout_s)
      throw Error(ExitCode::peer_lost, fmt::format("NCCL: {} took more than {} s", what, options_.timeout_s));
    std::this_thread::yield();
  }
  if (state != ncclSuccess) throw_error(state, what);
}

void NcclGroup::throw_error(ncclResult_t error, const char* what) {
  const auto deadline = deadline_in(NcclWatch::kRootCause_s);
  while (options_.exchange != nullptr && !options_.exchange->has_failed() && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (options_.exchange == nullptr || !options_.exchange->has_failed()) {
    const std::lock_guard lock(mutex_);
    if (cause_.empty()) check(error, what);
  }
  throw_failure();
}

ncclResult_t NcclGroup::together(const std::function<void(const Note&)>& begin_all) {
  ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess) return result;
  begin_all([&](ncclResult_t begun) {
    if (result == ncclSuccess && begun != ncclInProgress) result = begun;
  });
  // A group that was begun must be ended, even after an error.
  const ncclResult_t ended = ncclGroupEnd();
  return result != ncclSuccess ? result : ended;
}

void NcclGroup::begin(const char* name, const std::function<ncclResult_t()>& begin) {
  bool has_failed = false;
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    has_failed = !cause_.empty();
    if (!has_failed) result = begin();
  }
  if (has_failed) throw_failure();
  if (result != ncclSuccess && result != ncclInProgress) throw_error(result, name);
}

void NcclGroup::call(int place, const char* name, const Begin& begin_at) {
  begin(name, [&] { return begin_at(comms_[static_cast<size_t>(place)]); });
  finish(place, name);
}

void NcclGroup::call_at_all(const char* name, const BeginAt& begin_at) {
  begin(name, [&] {
    return together([&](const Note& note) {
      for (size_t place = 0; place < comms_.size(); ++place) begin_at(static_cast<int>(place), comms_[place], note);
    });
  });
  for (int place = 0; place < static_cast<int>(comms_.size()); ++place) finish(place, name);
}

void NcclGroup::abort_all(const std::vector<NcclGroup*>& groups, const std::string& cause, ExitCode code) {
  const auto left = std::make_shared<std::atomic<size_t>>(0);
  for (NcclGroup* group : groups) group->start_abort(cause, code, left);
  wait_for(left, kAbort_s);
}

void NcclGroup::start_abort(const std::string& cause, ExitCode code, const Left& left) {
  {
    const std::lock_guard lock(mutex_);
    if (!cause_.empty()) return;
    cause_ = cause;
    code_ = code;
    aborting_ = left;
  }
  // From now on nobody else uses them. Their GPUs are released at once. The last call may wait until recorded NCCL work
  // is destroyed, perhaps by the thread that aborts.
  for (ncclComm_t comm : comms_) abort_aside(comm, left);
}

void NcclGroup::throw_failure() {
  // The processes settle on one failure for all. This process may learn of it later than of the abort.
  if (options_.exchange != nullptr && options_.exchange->has_failed())
    throw JobError(options_.exchange->settled_failure());
  const std::lock_guard lock(mutex_);
  throw Error(code_, cause_);
}

void NcclGroup::check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess)
    throw Error(ExitCode::device,
                fmt::format("NCCL: {} failed: {} ({})", call, ncclGetErrorString(result), ncclGetLastError(nullptr)));
}

}  // namespace dptrain
