// Calls and entries of ranks that a host thread collects between ncclGroupStart and ncclGroupEnd.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nccl_world.h"

namespace dptrain::cuda_sim {

struct Given {
  std::shared_ptr<Rank> rank;
  cudaStream_t stream;
  Call call;
};

struct Group {
  int depth = 0;  // 0: none is open
  ncclResult_t error = ncclSuccess;
  std::vector<Given> calls;
  std::vector<std::shared_ptr<Rank>> entered;
};
// The calling thread's group.
Group& group();

// The text that ncclGetLastError returns to the calling thread.
std::string& last_error();
// Returns `error`; prints a line on stderr and stores it in last_error(). Ends an open group.
ncclResult_t refuse(ncclResult_t error, const std::string& why);

// Gives calls to their streams. The calls of one stream have no order among themselves, because a group is one kernel
// to its stream. Called with the lock held.
ncclResult_t submit_calls(const std::vector<Given>& calls);

}  // namespace dptrain::cuda_sim
