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
// The calling thread's.
Group& group();

// What ncclGetLastError tells the calling thread.
std::string& last_error();
// `error`, with a line on stderr and in last_error(). An open group ends with it.
ncclResult_t refuse(ncclResult_t error, const std::string& why);

// Gives calls to their streams, each stream's without an order among them: a group is one kernel to its stream. With
// the lock held.
ncclResult_t submit_calls(const std::vector<Given>& calls);

}  // namespace dptrain::cuda_sim
