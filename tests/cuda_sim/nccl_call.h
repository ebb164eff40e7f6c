// A rank's part in a collective or a transfer, and its effect on the ranks' memory.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

namespace dptrain::cuda_sim {

enum class CallKind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce, kSend, kRecv };

struct Call {
  CallKind kind = CallKind::kAllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;  // as the caller gave it
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int peer = 0;  // or the root
};

std::size_t element_bytes(ncclDataType_t type);
// Bytes that rank `rank` of `ranks` reads and writes; 0 where it has no such buffer.
std::size_t send_bytes(const Call& call, int rank, int ranks);
std::size_t recv_bytes(const Call& call, int rank, int ranks);
std::string describe(const Call& call);
bool match(const Call& a, const Call& b);

// Carries calls out. `calls` has the call of each rank, or the sender's and the receiver's for a transfer.
void run_calls(const std::vector<Call>& calls);

}  // namespace dptrain::cuda_sim
