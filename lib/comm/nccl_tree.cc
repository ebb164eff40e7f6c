#include "comm/nccl_tree.h"

#include <bit>
#include <utility>

#include "comm/tree_sum_cuda.h"

namespace dptrain {
namespace {

void* resolved(const RankPlace& place, const CommCall& call, void* staging) {
  const auto in = [&]() -> void* {
    switch (place.buffer) {
      case RankPlace::Buffer::in: return call.in.data;
      case RankPlace::Buffer::out: return call.out.data;
      case RankPlace::Buffer::staging: break;
    }
    return staging;
  };
  return static_cast<std::byte*>(in()) + place.byte;
}

TreeSum resolved(const RankSum& sum, const CommCall& call, void* staging) {
  TreeSum placed{.inputs = {},
                 .outputs = {resolved(sum.output, call, staging)},
                 .elements = sum.elements,
                 .dtype = sum.dtype,
                 .widths = sum.widths,
                 .partial = sum.partial};
  for (const RankPlace& input : sum.inputs) placed.inputs.push_back(resolved(input, call, staging));
  return placed;
}

}  // namespace

NcclTree::NcclTree(CudaDevice& device, NcclGroup& group, int place, const Options& options)
    : device_(device),
      group_(group),
      place_(place),
      options_{.nodes = options.nodes, .rank = options.rank, .most_inputs = kMaxCudaTreeInputs},
      most_bytes_(options.most_bytes) {
  load_tree_sums();
}

NcclTree::~NcclTree() {
  for (const CachingAllocator::Block& block : staging_) device_.allocator().free(block, MemoryPurpose::communication);
}

void NcclTree::give(const CommCall& call) {
  for (const CommCall& piece : pieces_of(call, most_bytes_)) give_at_once(piece);
}

void NcclTree::give_at_once(const CommCall& call) {
  const RankTreePlan& plan = plan_of(call);
  void* const place = staging(plan.staging_bytes);
  for (const RankStage& stage : plan.stages) {
    for (const RankSum& sum : stage.sums) run_tree_sum(device_, resolved(sum, call, place), 0, sum.elements);
    if (!stage.messages.empty()) exchange(stage.messages, call, place);
  }
}

const RankTreePlan& NcclTree::plan_of(const CommCall& call) {
  const auto [found, is_new] =
      plans_.try_emplace({call.kind, call.payload().elements, call.in.dtype, call.other}, RankTreePlan{});
  if (is_new) found->second = plan_rank_tree(call, options_);
  return found->second;
}

void* NcclTree::staging(int64_t bytes) {
  if (bytes == 0) return nullptr;
  if (staging_.empty() || staging_.back().bytes < bytes) {
    // Of powers of two those before the last are no more than it.
    const auto block = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
    staging_.push_back(device_.allocator().allocate(block, MemoryPurpose::communication));
  }
  return staging_.back().memory;
}

void NcclTree::exchange(const std::vector<RankMessage>& messages, const CommCall& call, void* staging) {
  const cudaStream_t stream = device_.communication_stream();
  group_.call(place_, "ncclGroupEnd", [&](ncclComm_t comm) {
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess) return result;
    for (const RankMessage& message : messages) {
      void* data = resolved(message.place, call, staging);
      const auto bytes = static_cast<size_t>(message.bytes);
      const ncclResult_t begun = message.sends ? ncclSend(data, bytes, ncclUint8, message.rank, comm, stream)
                                               : ncclRecv(data, bytes, ncclUint8, message.rank, comm, stream);
      if (begun != ncclSuccess && begun != ncclInProgress) result = begun;
    }
    // A group that was begun has to be ended, whatever it has met with.
    const ncclResult_t ended = ncclGroupEnd();
    return result != ncclSuccess ? result : ended;
  });
}

}  // namespace dptrain
