// NCCL's communicators and errors, over simulated devices.
#include <nccl.h>

#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "nccl_group.h"

using namespace dptrain::cuda_sim;

namespace {

std::vector<OpPtr> work_of(const Rank& rank) {
  std::vector<OpPtr> work;
  for (const auto& weak : rank.work)
    if (OpPtr op = weak.lock()) work.push_back(std::move(op));
  return work;
}

// Makes a step of each operation that isn't done. Unlocks meanwhile.
bool work_is_done(Lock& lock, const Rank& rank) {
  bool done = true;
  for (const OpPtr& op : work_of(rank)) {
    if (op->state != OpState::kDone) make_progress(lock, op);
    done &= op->state == OpState::kDone;
  }
  return done;
}

}  // namespace

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
  std::memset(id, 0, sizeof(*id));
  std::snprintf(id->internal, sizeof(id->internal), "%s", new_unique_id().c_str());
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
  if (group().depth > 0) {
    group().entered.push_back(member);
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
      group().error = ncclInvalidArgument;
    else
      ncclCommInitRank(comms + i, count, id, i);
  }
  cudaSetDevice(before);
  return ncclGroupEnd();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  Lock lock(runtime().mutex);
  if (!communicators().contains(comm)) return refuse(ncclInvalidArgument, "ncclCommGetAsyncError: no communicator");
  const std::shared_ptr<Rank> held = comm->rank;
  Rank& rank = *held;
  const ncclResult_t state = world_state(*rank.world);
  *error = rank.error != ncclSuccess ? rank.error : state;
  if (!rank.blocking && *error == ncclSuccess && !std::exchange(rank.polled, true)) *error = ncclInProgress;
  if (rank.finalizing && *error == ncclSuccess && !work_is_done(lock, rank)) *error = ncclInProgress;
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
  comm->rank->finalizing = true;
  if (!comm->rank->blocking) return ncclInProgress;
  wait_for(lock, work_of(*comm->rank));
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Lock lock(runtime().mutex);
  if (!communicators().contains(comm)) return refuse(ncclInvalidArgument, "ncclCommDestroy: no communicator");
  wait_for(lock, work_of(*comm->rank));
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

}  // extern "C"
