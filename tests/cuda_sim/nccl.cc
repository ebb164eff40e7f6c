// The NCCL API over simulated devices of one process.
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "nccl_world.h"

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {
namespace {

std::unordered_set<const ncclComm*>& communicators() {
  static auto& all = *new std::unordered_set<const ncclComm*>;
  return all;
}

struct Given {
  std::shared_ptr<Rank> rank;
  cudaStream_t stream;
  Call call;
};
thread_local int group_depth = 0;
thread_local ncclResult_t group_error = ncclSuccess;
thread_local std::vector<Given> group_calls;
thread_local std::vector<std::shared_ptr<Rank>> group_entered;

std::string& last_error() {
  thread_local std::string text;
  return text;
}

ncclResult_t refuse(ncclResult_t error, const std::string& why) {
  std::fprintf(stderr, "cuda_sim: nccl: %s\n", why.c_str());
  last_error() = why;
  if (group_depth > 0) group_error = error;
  return error;
}

ncclResult_t await_world(Lock& lock, const World& world) {
  while (world_state(world) == ncclInProgress) runtime().changed.wait(lock);
  return world_state(world);
}

Work work_of(const Given& given) {
  Work work;
  work.join = [rank = given.rank, call = given.call](const OpPtr& op) { meet(rank, call, op); };
  return work;
}

// The calls of a group, each stream's without an order among them: a group is one kernel to its stream.
ncclResult_t submit_calls(const std::vector<Given>& calls) {
  std::vector<CUstream_st*> streams;
  std::vector<std::vector<Work>> works;
  for (const Given& given : calls) {
    CUstream_st* stream = find_stream(given.stream);
    std::size_t i = 0;
    while (i < streams.size() && streams[i] != stream) ++i;
    if (i == streams.size()) {
      streams.push_back(stream);
      works.emplace_back();
    }
    works[i].push_back(work_of(given));
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (finish(submit_group(*streams[i], works[i])) != cudaSuccess) return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

bool reachable(const void* data, std::size_t bytes) {
  if (bytes == 0) return true;
  std::size_t after = 0;
  return find_allocation(data, &after) != nullptr && bytes <= after;
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
  if (call.peer < 0 || call.peer >= rank->ranks())
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
  if (group_depth > 0) {
    group_calls.push_back({rank, handle, call});
    return ncclSuccess;
  }
  return submit_calls({{rank, handle, call}});
}

}  // namespace
}  // namespace dptrain::cuda_sim

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}
const char* ncclGetLastError(ncclComm_t comm) {
  Lock lock(runtime().mutex);
  if (communicators().contains(comm) && !comm->rank->last_error.empty()) last_error() = comm->rank->last_error;
  return last_error().c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return refuse(ncclInvalidArgument, "ncclGetUniqueId: no place for it");
  static unsigned long long made = 0;
  Lock lock(runtime().mutex);
  std::memset(id, 0, sizeof(*id));
  std::snprintf(id->internal, sizeof(id->internal), "%d-%llu", static_cast<int>(getpid()), ++made);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  Lock lock(runtime().mutex);
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks) {
    return refuse(ncclInvalidArgument,
                  "ncclCommInitRank: rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  }
  *comm = nullptr;
  if (usable() != cudaSuccess) return refuse(ncclUnhandledCudaError, "ncclCommInitRank: the device is not usable");
  auto member = std::make_shared<Rank>();
  member->rank = rank;
  member->device = caller().device;
  member->blocking = config == nullptr || config->blocking != 0;
  ncclResult_t state = enter_world(std::string(id.internal, sizeof(id.internal)), ranks, member);
  *comm = new ncclComm{member};
  communicators().insert(*comm);
  if (!member->blocking) return state == ncclSuccess ? ncclInProgress : state;
  if (group_depth > 0) {
    group_entered.push_back(member);
    return ncclSuccess;
  }
  state = await_world(lock, *member->world);
  if (state == ncclSuccess) return state;
  leave_world(*member);
  communicators().erase(*comm);
  delete *comm;
  *comm = nullptr;
  return refuse(state, member->last_error);
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  const int before = caller().device;
  ncclGroupStart();
  for (int i = 0; i < count; ++i) {
    if (cudaSetDevice(devices != nullptr ? devices[i] : i) != cudaSuccess)
      group_error = ncclInvalidArgument;
    else
      ncclCommInitRank(comms + i, count, id, i);
  }
  cudaSetDevice(before);
  return ncclGroupEnd();
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group_depth > 0) return ncclSuccess;
  const std::vector<Given> calls = std::exchange(group_calls, {});
  const auto entered = std::exchange(group_entered, {});
  const ncclResult_t error = std::exchange(group_error, ncclSuccess);
  Lock lock(runtime().mutex);
  if (error != ncclSuccess) return error;
  for (const auto& rank : entered) {
    if (const ncclResult_t state = await_world(lock, *rank->world); state != ncclSuccess) {
      return refuse(state, rank->last_error);
    }
  }
  return submit_calls(calls);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  Lock lock(runtime().mutex);
  if (!communicators().contains(comm)) return refuse(ncclInvalidArgument, "ncclCommGetAsyncError: no communicator");
  Rank& rank = *comm->rank;
  *error = rank.error != ncclSuccess ? rank.error : world_state(*rank.world);
  if (!rank.blocking && *error == ncclSuccess && !std::exchange(rank.polled, true)) *error = ncclInProgress;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->rank->ranks();
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  *device = comm->rank->device;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->rank->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  Lock lock(runtime().mutex);
  if (!communicators().contains(comm)) return refuse(ncclInvalidArgument, "ncclCommFinalize: no communicator");
  const std::shared_ptr<Rank> rank = comm->rank;
  std::vector<OpPtr> work;
  for (const auto& weak : rank->work) work.push_back(weak.lock());
  wait_for(lock, work);
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (const ncclResult_t result = ncclCommFinalize(comm); result != ncclSuccess) return result;
  Lock lock(runtime().mutex);
  leave_world(*comm->rank);
  communicators().erase(comm);
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Lock lock(runtime().mutex);
  if (communicators().erase(comm) == 0) return refuse(ncclInvalidArgument, "ncclCommAbort: no communicator");
  abort_world(comm->rank);
  leave_world(*comm->rank);
  delete comm;
  return ncclSuccess;
}

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
