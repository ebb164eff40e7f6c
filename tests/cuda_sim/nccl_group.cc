#include "nccl_group.h"

#include <cstdio>
#include <utility>

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {
namespace {

Work work_of(const Given& given) {
  Work work;
  work.join = [rank = given.rank, call = given.call](const OpPtr& op) { meet(rank, call, op); };
  return work;
}

}  // namespace

Group& group() {
  thread_local Group self;
  return self;
}

std::string& last_error() {
  thread_local std::string text;
  return text;
}

ncclResult_t refuse(ncclResult_t error, const std::string& why) {
  std::fprintf(stderr, "cuda_sim: nccl: %s\n", why.c_str());
  last_error() = why;
  if (group().depth > 0) group().error = error;
  return error;
}

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

}  // namespace dptrain::cuda_sim

extern "C" {

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group().depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group().depth > 0) return ncclSuccess;
  const std::vector<Given> calls = std::exchange(group().calls, {});
  const auto entered = std::exchange(group().entered, {});
  const ncclResult_t error = std::exchange(group().error, ncclSuccess);
  Lock lock(runtime().mutex);
  if (error != ncclSuccess) return error;
  for (const auto& rank : entered) {
    if (const ncclResult_t state = await_world(lock, *rank->world); state != ncclSuccess) {
      return refuse(state, rank->last_error);
    }
  }
  return submit_calls(calls);
}

}  // extern "C"
