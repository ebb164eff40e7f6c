// NCCL's collectives and transfers: their checks, and how they reach a group or a stream.
#include "nccl_group.h"

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {
namespace {

bool reachable(const void* data, std::size_t bytes) {
  if (bytes == 0) return true;
  std::size_t after = 0;
  return find_allocation(data, &after) != nullptr && bytes <= after;
}

bool is_transfer(const Call& call) { return call.kind == CallKind::kSend || call.kind == CallKind::kRecv; }

// Whether the call fits into the file that processes share.
bool fits(const Call& call, const Rank& rank) {
  if (is_transfer(call)) return call.count * element_bytes(call.type) <= kMostTransferBytes;
  return send_bytes(call, rank.rank, rank.ranks()) <= kMostBytes;
}

ncclResult_t give(ncclComm_t comm, cudaStream_t handle, const Call& call) {
  Lock lock(runtime().mutex);
  if (!communicators().contains(comm)) return refuse(ncclInvalidArgument, describe(call) + ": no such communicator");
  const std::shared_ptr<Rank> rank = comm->rank;
  if (rank->error != ncclSuccess) return refuse(rank->error, describe(call) + ": " + rank->last_error);
  if (world_state(*rank->world) == ncclInProgress) {
    return refuse(ncclInvalidArgument, describe(call) + ": the communicator is not ready");
  }
  if (call.type < 0 || call.type > ncclBfloat16) return refuse(ncclInvalidArgument, describe(call) + ": unknown type");
  if (call.op < 0 || call.op >= ncclNumOps) return refuse(ncclInvalidArgument, describe(call) + ": unknown operation");
  if (rank->world->shared != nullptr && !fits(call, *rank))
    return refuse(ncclInvalidUsage, describe(call) +
                                        ": between processes a collective of at most 64 MiB is simulated, "
                                        "and a transfer of 32");
  if (call.peer < 0 || call.peer >= rank->ranks() || (is_transfer(call) && call.peer == rank->rank))
    return refuse(ncclInvalidArgument, describe(call) + ": no such rank");
  if (!reachable(call.send, send_bytes(call, rank->rank, rank->ranks())) ||
      !reachable(call.recv, recv_bytes(call, rank->rank, rank->ranks()))) {
    return refuse(ncclInvalidArgument, describe(call) + ": a buffer is not inside of one live device allocation");
  }
  const CUstream_st* stream = find_stream(handle);
  if (stream == nullptr || stream->device != rank->device) {
    return refuse(ncclInvalidArgument,
                  describe(call) + ": expected a stream of device " + std::to_string(rank->device));
  }
  if (group().depth > 0) {
    group().calls.push_back({rank, handle, call});
    return ncclSuccess;
  }
  return submit_calls({{rank, handle, call}});
}

}  // namespace
}  // namespace dptrain::cuda_sim

extern "C" {

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return give(comm, stream, {CallKind::kAllReduce, send, recv, count, type, op, 0});
}
ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return give(comm, stream, {CallKind::kReduceScatter, send, recv, count, type, op, 0});
}
ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return give(comm, stream, {CallKind::kAllGather, send, recv, count, type, ncclSum, 0});
}
ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return give(comm, stream, {CallKind::kBroadcast, send, recv, count, type, ncclSum, root});
}
ncclResult_t ncclBcast(void* data, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(data, data, count, type, root, comm, stream);
}
ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return give(comm, stream, {CallKind::kReduce, send, recv, count, type, op, root});
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return give(comm, stream, {CallKind::kSend, send, nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return give(comm, stream, {CallKind::kRecv, nullptr, recv, count, type, ncclSum, peer});
}

}  // extern "C"
