#include "comm/nccl_communicator.h"

#include <fmt/format.h>
#include <nccl.h>

#include <atomic>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "comm/comm_call.h"
#include "comm/cuda_work.h"
#include "comm/thread_communicator.h"
#include "device/cuda_device.h"

namespace dptrain {
namespace {

/// The NCCL communicators of all ranks of this process, by rank.
class NcclGroup {
 public:
  explicit NcclGroup(double timeout_s) : timeout_s_(timeout_s) {}
  ~NcclGroup() {
    if (aborted_) return;
    for (ncclComm_t comm : comms_)
      if (comm != nullptr) ncclCommDestroy(comm);
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  void form(const std::vector<Device*>& devices) {
    ncclUniqueId id;
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    comms_.resize(devices.size());
    check(ncclGroupStart(), "ncclGroupStart");
    for (size_t rank = 0; rank < devices.size(); ++rank) {
      devices[rank]->enter_thread();
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;  // so that no call of ours waits without a deadline
      expect_begun(
          ncclCommInitRankConfig(&comms_[rank], static_cast<int>(devices.size()), id, static_cast<int>(rank), &config),
          "ncclCommInitRankConfig");
    }
    expect_begun(ncclGroupEnd(), "ncclGroupEnd");
    for (ncclComm_t comm : comms_) finish(comm, "forming the communicators");
  }

  ncclComm_t comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }

  /// Waits until a call that was begun on `comm` is made.
  void finish(ncclComm_t comm, const char* what) const {
    const auto begun = Clock::now();
    ncclResult_t state = ncclInProgress;
    while (true) {
      check(ncclCommGetAsyncError(comm, &state), what);
      if (state != ncclInProgress) break;
      if (seconds_since(begun) > timeout_s_)
        throw Error(ExitCode::peer_lost, fmt::format("NCCL: {} took over {} s", what, timeout_s_));
      std::this_thread::yield();
    }
    check(state, what);
  }

  /// For calls that may go on after they return.
  static void expect_begun(ncclResult_t result, const char* call) {
    if (result != ncclInProgress) check(result, call);
  }
  static void check(ncclResult_t result, const char* call) {
    if (result != ncclSuccess)
      throw Error(ExitCode::device,
                  fmt::format("NCCL: {} failed: {} ({})", call, ncclGetErrorString(result), ncclGetLastError(nullptr)));
  }

  /// Ends all collectives under way, of all ranks. Once.
  void abort() {
    if (aborted_.exchange(true)) return;
    for (ncclComm_t comm : comms_)
      if (comm != nullptr) ncclCommAbort(comm);
  }

 private:
  double timeout_s_;
  std::vector<ncclComm_t> comms_;
  std::atomic<bool> aborted_ = false;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(CudaDevice& device, std::unique_ptr<Communicator> others, std::unique_ptr<Communicator> meeting,
                   std::shared_ptr<NcclGroup> group)
      : device_(device), others_(std::move(others)), meeting_(std::move(meeting)), group_(std::move(group)) {}

  int rank() const override { return others_->rank(); }
  int size() const override { return others_->size(); }

  std::unique_ptr<CommWork> start_all_reduce(const CommBuffer& buffer) override {
    if (buffer.dtype != DType::f32) return others_->start_all_reduce(buffer);
    // Ranks that differ would hang in NCCL: their threads compare their calls first.
    meeting_->all_reduce(buffer);
    ready_.record(device_.stream());
    ready_.block(device_.communication_stream());
    NcclGroup::expect_begun(ncclAllReduce(buffer.data, buffer.data, static_cast<size_t>(buffer.elements), ncclFloat,
                                          ncclSum, group_->comm(rank()), device_.communication_stream()),
                            "ncclAllReduce");
    group_->finish(group_->comm(rank()), "ncclAllReduce");
    return std::make_unique<CudaWork>(device_);
  }
  std::unique_ptr<CommWork> start_reduce(const CommBuffer& buffer, int root) override {
    return others_->start_reduce(buffer, root);
  }
  void broadcast(const CommBuffer& buffer, int root) override { others_->broadcast(buffer, root); }
  void reduce_scatter(const CommBuffer& in, const CommBuffer& out) override { others_->reduce_scatter(in, out); }
  std::unique_ptr<CommWork> start_all_gather(const CommBuffer& in, const CommBuffer& out) override {
    return others_->start_all_gather(in, out);
  }
  void gather(const CommBuffer& in, const CommBuffer& out, int root) override { others_->gather(in, out, root); }
  void scatter(const CommBuffer& in, const CommBuffer& out, int root) override { others_->scatter(in, out, root); }
  std::unique_ptr<CommWork> start_send(const CommBuffer& buffer, int peer) override {
    return others_->start_send(buffer, peer);
  }
  std::unique_ptr<CommWork> start_receive(const CommBuffer& buffer, int peer) override {
    return others_->start_receive(buffer, peer);
  }
  void barrier() override { others_->barrier(); }

  void abort(const std::string& cause, ExitCode code) override {
    meeting_->abort(cause, code);
    others_->abort(cause, code);
    group_->abort();
  }

  CommCounts counts() const override {
    const CommCounts a = meeting_->counts(), b = others_->counts();
    return {.bytes = a.bytes + b.bytes + replayed_.bytes,
            .collectives = a.collectives + b.collectives + replayed_.collectives};
  }
  bool can_be_recorded() const override { return true; }
  void count_replay(const CommCounts& counts) override {
    replayed_.bytes += counts.bytes;
    replayed_.collectives += counts.collectives;
  }

 private:
  CudaDevice& device_;
  std::unique_ptr<Communicator> others_;
  std::unique_ptr<Communicator> meeting_;
  std::shared_ptr<NcclGroup> group_;
  CudaEvent ready_;
  CommCounts replayed_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(const std::vector<Device*>& devices,
                                                                   std::vector<std::unique_ptr<Communicator>> others,
                                                                   double timeout_s) {
  nccl_library().require_fit();
  auto group = std::make_shared<NcclGroup>(timeout_s);
  group->form(devices);
  auto meetings =
      make_thread_communicators(static_cast<int>(devices.size()), {.timeout_s = timeout_s, .meet_only = true});
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    devices[rank]->enter_thread();
    ranks.push_back(std::make_unique<NcclCommunicator>(CudaDevice::of(*devices[rank]), std::move(others[rank]),
                                                       std::move(meetings[rank]), group));
  }
  return ranks;
}

LibraryVersion nccl_library() {
  int loaded = 0;
  NcclGroup::check(ncclGetVersion(&loaded), "ncclGetVersion");  // 22800
  return {.name = "NCCL",
          .built_major = NCCL_MAJOR,
          .built_minor = NCCL_MINOR,
          .loaded_major = loaded / 10000,
          .loaded_minor = loaded / 100 % 100};
}

}  // namespace dptrain
