#include "comm/nccl_communicator.h"

#include <nccl.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/bit_digest.h"
#include "base/host_name.h"
#include "comm/cuda_work.h"
#include "comm/exchange_span.h"
#include "comm/nccl_group.h"
#include "comm/nccl_messages.h"
#include "comm/nccl_tree.h"
#include "comm/nccl_work.h"
#include "comm/process_group.h"
#include "comm/staged_communicator.h"
#include "device/cuda_device.h"

namespace dptrain {
namespace {

/// The types whose sums NCCL rounds as we do. It rounds 16-bit types at every rank.
std::optional<ncclDataType_t> summed_as(DType dtype) {
  switch (dtype) {
    case DType::f32: return ncclFloat32;
    case DType::f64: return ncclFloat64;
    case DType::i32: return ncclInt32;
    case DType::i64: return ncclInt64;
    default: return std::nullopt;
  }
}

class NcclCommunicator final : public Communicator {
 public:
  struct Ends {
    std::unique_ptr<Communicator> others;
    std::unique_ptr<Communicator> meeting;
  };
  /// Options for ranks of several processes, where `others` goes through host memory.
  struct Span {
    WorldShape nodes;
    TreeSums by_tree = TreeSums::all;
    int64_t most_bytes = kMostTreeBytes;
    std::vector<NcclLane> lanes = {};
  };
  /// `place` is the device's place among this process's devices.
  NcclCommunicator(CudaDevice& device, Ends ends, std::shared_ptr<NcclGroup> group, int place,
                   const std::optional<Span>& span)
      : device_(device),
        others_(std::move(ends.others)),
        meeting_(std::move(ends.meeting)),
        group_(std::move(group)),
        place_(place),
        spans_processes_(span.has_value()) {
    if (!span) return;
    by_tree_ = span->by_tree;
    tree_.emplace(device, *group_, place,
                  NcclTree::Options{.nodes = span->nodes, .rank = others_->rank(), .most_bytes = span->most_bytes});
    messages_.emplace(device, place, others_->rank(), span->lanes);
  }

  int rank() const override { return others_->rank(); }
  int size() const override { return others_->size(); }

  std::unique_ptr<CommWork> start_all_reduce(const CommBuffer& b) override {
    const CommCall call{.kind = CommKind::all_reduce, .in = b, .out = b};
    if (is_of_tree(call)) return start_by_tree(call, meeting_->start_all_reduce(b));
    const auto type = summed_as(b.dtype);
    if (!type || (b.dtype != DType::f32 && !takes_all())) return others_->start_all_reduce(b);
    return start(call, "ncclAllReduce", meeting_->start_all_reduce(b), [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(b.data, b.data, count(b), *type, ncclSum, comm, stream);
    });
  }
  std::unique_ptr<CommWork> start_reduce(const CommBuffer& b, int root) override {
    const CommCall call{.kind = CommKind::reduce, .in = b, .out = b, .other = root};
    if (is_of_tree(call)) return start_by_tree(call, meeting_->start_reduce(b, root));
    const auto type = summed_as(b.dtype);
    if (!type || !takes_all()) return others_->start_reduce(b, root);
    return start(call, "ncclReduce", meeting_->start_reduce(b, root), [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclReduce(b.data, b.data, count(b), *type, ncclSum, root, comm, stream);
    });
  }
  void broadcast(const CommBuffer& b, int root) override {
    if (!takes_all()) return others_->broadcast(b, root);
    meeting_->broadcast(b, root);
    const CommCall call{.kind = CommKind::broadcast, .in = b, .out = b, .other = root};
    give_nccl(call, "ncclBroadcast", [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(b.data, b.data, bytes(b), ncclUint8, root, comm, stream);
    })->wait();
  }
  std::unique_ptr<CommWork> start_reduce_scatter(const CommBuffer& in, const CommBuffer& out) override {
    const CommCall call{.kind = CommKind::reduce_scatter, .in = in, .out = out};
    if (is_of_tree(call)) return start_by_tree(call, meeting_->start_reduce_scatter(in, out));
    const auto type = summed_as(in.dtype);
    if (!type || !takes_all()) return others_->start_reduce_scatter(in, out);
    const auto give = [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclReduceScatter(in.data, out.data, count(out), *type, ncclSum, comm, stream);
    };
    return start(call, "ncclReduceScatter", meeting_->start_reduce_scatter(in, out), give);
  }
  std::unique_ptr<CommWork> start_all_gather(const CommBuffer& in, const CommBuffer& out) override {
    if (!takes_all()) return others_->start_all_gather(in, out);
    const CommCall call{.kind = CommKind::all_gather, .in = in, .out = out};
    return start(call, "ncclAllGather", meeting_->start_all_gather(in, out), [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllGather(in.data, out.data, bytes(in), ncclUint8, comm, stream);
    });
  }
  void gather(const CommBuffer& in, const CommBuffer& out, int root) override { others_->gather(in, out, root); }
  void scatter(const CommBuffer& in, const CommBuffer& out, int root) override { others_->scatter(in, out, root); }
  std::unique_ptr<CommWork> start_send(const CommBuffer& buffer, int peer) override {
    const CommCall call{.kind = CommKind::send, .in = buffer, .other = peer};
    if (!goes_by_lane(call)) return others_->start_send(buffer, peer);
    return start_by_lane(call, meeting_->start_send(buffer, peer));
  }
  std::unique_ptr<CommWork> start_receive(const CommBuffer& buffer, int peer) override {
    const CommCall call{.kind = CommKind::receive, .out = buffer, .other = peer};
    if (!goes_by_lane(call)) return others_->start_receive(buffer, peer);
    return start_by_lane(call, meeting_->start_receive(buffer, peer));
  }
  void barrier() override { others_->barrier(); }

  void abort(const std::string& cause, ExitCode code) override {
    meeting_->abort(cause, code);
    others_->abort(cause, code);
    std::vector<NcclGroup*> groups = messages_ ? messages_->groups() : std::vector<NcclGroup*>();
    groups.push_back(group_.get());
    NcclGroup::abort_all(groups, cause, code);
  }

  void show_on(Timeline* timeline, const std::string& other) override { others_->show_on(timeline, other); }

  CommCounts counts() const override {
    CommCounts all = meeting_->counts();
    all += others_->counts();
    return all += replayed_;
  }
  CommWays ways() const override {
    // `meeting_` counts the calls that NCCL was given.
    if (others_->counts().bytes > meeting_->counts().bytes + replayed_.bytes) return others_->ways();
    CommWays ways = others_->ways();
    for (std::string* way : {&ways.between_devices, &ways.between_processes})
      if (!way->empty()) *way = "nccl";
    return ways;
  }
  bool can_be_recorded(DType dtype) const override { return tree_ ? can_sum(dtype) : dtype == DType::f32; }
  void begin_recordable(bool apart) override {
    recordable_ = true;
    apart_ = apart;
  }
  void end_recordable() override { recordable_ = apart_ = false; }
  void count_replay(const CommCounts& counts) override {
    replayed_ += counts;
    group_->expect(place_, device_.stream());
  }

 private:
  static size_t count(const CommBuffer& buffer) { return static_cast<size_t>(buffer.elements); }
  static size_t bytes(const CommBuffer& buffer) { return static_cast<size_t>(buffer.bytes()); }
  /// Whether NCCL carries more than all-reduces of f32. Within one process, `others` has kernels for the rest, in which
  /// no GPU waits for another. But the meetings of `others` can't be recorded.
  bool takes_all() const { return spans_processes_ || recordable_; }
  /// Whether the call needs a sum in the tree's order, which isn't NCCL's own.
  bool is_of_tree(const CommCall& call) const { return tree_ && goes_by_tree(call, by_tree_); }

  /// Gives the device work that runs after everything given before, and beside whatever is given next.
  template <class Give>
  std::unique_ptr<CudaWork> give(const CommCall& call, const Give& give_to) {
    if (apart_) wait_until_idle();
    const cudaStream_t stream = device_.communication_stream();
    ready_.record(device_.stream());
    ready_.block(stream);
    const int64_t span = begin_exchange(device_, call);
    give_to(stream);
    group_->expect(place_, stream);
    auto work = std::make_unique<CudaWork>(device_, stream, span);
    if (apart_) {
      work->wait();
      wait_until_idle();
    }
    return work;
  }
  /// Waits until all ranks' devices are idle.
  void wait_until_idle() {
    device_.synchronize();
    others_->barrier();
  }
  template <class Begin>
  std::unique_ptr<CudaWork> give_nccl(const CommCall& call, const char* name, const Begin& begin) {
    return give(call, [&](cudaStream_t stream) {
      group_->call(place_, name, [&](ncclComm_t comm) { return begin(comm, stream); });
    });
  }

  /// Threads of one process meet first, which is quick. Other processes take a message to meet, so the GPU is given its
  /// work meanwhile.
  template <class Begin>
  std::unique_ptr<CommWork> start(const CommCall& call, const char* name, std::unique_ptr<CommWork> meeting,
                                  const Begin& begin) {
    if (!spans_processes_) meeting->wait();
    std::unique_ptr<CudaWork> given = give_nccl(call, name, begin);
    return std::make_unique<NcclWork>(std::move(meeting), std::move(given));
  }
  std::unique_ptr<CommWork> start_by_tree(const CommCall& call, std::unique_ptr<CommWork> meeting) {
    std::unique_ptr<CudaWork> given = give(call, [&](cudaStream_t) { tree_->give(call); });
    return std::make_unique<NcclWork>(std::move(meeting), std::move(given));
  }
  bool goes_by_lane(const CommCall& message) const { return messages_ && messages_->carries(message); }
  std::unique_ptr<CommWork> start_by_lane(const CommCall& message, std::unique_ptr<CommWork> meeting) {
    return messages_->start(message, std::move(meeting));
  }

  CudaDevice& device_;
  std::unique_ptr<Communicator> others_;
  std::unique_ptr<Communicator> meeting_;
  std::shared_ptr<NcclGroup> group_;
  int place_;
  bool spans_processes_;
  bool recordable_ = false;
  bool apart_ = false;
  TreeSums by_tree_ = TreeSums::all;
  std::optional<NcclTree> tree_;          ///< set for ranks of several processes
  std::optional<NcclMessages> messages_;  ///< set for ranks of several processes
  CudaEvent ready_;
  CommCounts replayed_;
};

/// The id that process 0 of the world has made.
ncclUniqueId shared_id(ProcessGroup& processes) {
  ncclUniqueId id{};
  std::string bytes;
  if (processes.is_main()) {
    id = NcclGroup::make_id();
    bytes.assign(reinterpret_cast<const char*>(&id), sizeof(id));
  }
  bytes = processes.from_main(bytes);
  std::memcpy(&id, bytes.data(), sizeof(id));
  return id;
}

/// The ranks of each host.
WorldShape nodes_of(const RanksOfProcesses& world, ProcessGroup& processes) {
  const std::string name = host_name();
  const uint64_t digest = bit_digest(std::as_bytes(std::span(name)));
  return ranks_of_hosts(world.shape, processes.values(static_cast<int64_t>(digest)));
}

using Communicators = std::vector<std::unique_ptr<Communicator>>;

Communicators communicators_of(const std::vector<Device*>& devices, Communicators others, Communicators meetings,
                               const std::shared_ptr<NcclGroup>& group,
                               const std::optional<NcclCommunicator::Span>& span) {
  Communicators ranks;
  for (size_t place = 0; place < devices.size(); ++place) {
    devices[place]->enter_thread();
    ranks.push_back(std::make_unique<NcclCommunicator>(
        CudaDevice::of(*devices[place]),
        NcclCommunicator::Ends{.others = std::move(others[place]), .meeting = std::move(meetings[place])}, group,
        static_cast<int>(place), span));
  }
  return ranks;
}

}  // namespace

Communicators make_nccl_communicators(const std::vector<Device*>& devices, Communicators others, double timeout_s) {
  nccl_library().require_fit();
  const auto size = static_cast<int>(devices.size());
  auto group = std::make_shared<NcclGroup>(NcclGroup::Options{.timeout_s = timeout_s});
  group->form(devices, {.id = NcclGroup::make_id(), .ranks = size});
  return communicators_of(devices, std::move(others),
                          make_thread_communicators(size, {.timeout_s = timeout_s, .meet_only = true}), group,
                          std::nullopt);
}

Communicators make_nccl_world_communicators(const std::vector<Device*>& devices, const NcclWorldOptions& options) {
  nccl_library().require_fit();
  const RanksOfProcesses& world = options.world;
  Communicators host = make_process_communicators(world, options.timeout_s);
  Communicators meetings = make_process_communicators(world, options.timeout_s, /*meet_only=*/true);
  ProcessGroup processes(*world.exchange, world.processes, options.timeout_s);
  NcclCommunicator::Span span{.nodes = options.nodes ? *options.nodes : nodes_of(world, processes),
                              .by_tree = tree_sums(options.deterministic),
                              .most_bytes = options.most_bytes};
  const int first_rank = host.front()->rank(), size = host.front()->size();
  const auto form_group = [&] {
    auto group =
        std::make_shared<NcclGroup>(NcclGroup::Options{.timeout_s = options.timeout_s, .exchange = world.exchange});
    group->form(devices, {.id = shared_id(processes), .first_rank = first_rank, .ranks = size});
    return group;
  };
  const auto group = form_group();
  for (const auto& pairs : message_lanes(options.messages)) {
    span.lanes.push_back({.group = form_group(), .pairs = pairs});
    connect_pairs(span.lanes.back(), devices, first_rank);
  }
  Communicators staged;
  for (size_t place = 0; place < devices.size(); ++place)
    staged.push_back(make_staged_communicator(*devices[place], std::move(host[place]), Staging::pageable));
  return communicators_of(devices, std::move(staged), std::move(meetings), group, span);
}

LibraryVersion nccl_library() {
  int loaded = 0;
  NcclGroup::check(ncclGetVersion(&loaded), "ncclGetVersion");  // 22800 for 2.28.0
  return {.name = "NCCL",
          .built_major = NCCL_MAJOR,
          .built_minor = NCCL_MINOR,
          .loaded_major = loaded / 10000,
          .loaded_minor = loaded / 100 % 100,
          .loaded_patch = loaded % 100};
}

}  // namespace dptrain
