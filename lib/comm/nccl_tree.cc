#include "comm/nccl_tree.h"

#include "comm/tree_sum_cuda.h"

namespace dptrain {
namespace {

void* resolved(const BufferPlace& place, const CommCall& call, void* staging) {
  const auto in = [&]() -> void* {
    switch (place.buffer) {
      case BufferPlace::Buffer::in: return call.in.data;
      case BufferPlace::Buffer::out: return call.out.data;
      case BufferPlace::Buffer::staging: break;
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
  for (const BufferPlace& input : sum.inputs) placed.inputs.push_back(resolved(input, call, staging));
  return placed;
}

}  // namespace

NcclTree::NcclTree(CudaDevice& device, NcclGroup& group, int place, const Options& options)
    : device_(device),
      group_(group),
      place_(place),
      most_bytes_(options.most_bytes),
      plans_({.nodes = options.nodes, .rank = options.rank, .most_inputs = kMaxCudaTreeInputs}),
      staging_(device.allocator()) {
  load_tree_sums();
}

void NcclTree::give(const CommCall& call) {
  for (const CommCall& piece : pieces_of(call, most_bytes_)) give_at_once(piece);
}

void NcclTree::give_at_once(const CommCall& call) {
  const RankTreePlan& plan = plans_.of(call);
  void* const place = staging_.take(plan.staging_bytes);
  for (const RankStage& stage : plan.stages) {
    for (const RankSum& sum : stage.sums) run_tree_sum(device_, resolved(sum, call, place), 0, sum.elements);
    if (!stage.messages.empty()) exchange(stage.messages, call, place);
  }
}

void NcclTree::exchange(const std::vector<RankMessage>& messages, const CommCall& call, void* staging) {
  const cudaStream_t stream = device_.communication_stream();
  group_.call(place_, "ncclGroupEnd", [&](ncclComm_t comm) {
    return NcclGroup::together([&](const NcclGroup::Note& note) {
      for (const RankMessage& message : messages) {
        void* data = resolved(message.place, call, staging);
        const auto bytes = static_cast<size_t>(message.bytes);
        note(message.sends ? ncclSend(data, bytes, ncclUint8, message.rank, comm, stream)
                           : ncclRecv(data, bytes, ncclUint8, message.rank, comm, stream));
      }
    });
  });
}

}  // namespace dptrain
