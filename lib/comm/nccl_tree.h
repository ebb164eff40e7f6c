#pragma once

#include <vector>

#include "comm/nccl_group.h"
#include "comm/rank_tree_plan.h"
#include "comm/tree_staging.h"
#include "device/cuda_device.h"

namespace dptrain {

/// A rank's part in sums over GPUs in the tree's order. NCCL carries parts of buffers from rank to rank, and each
/// rank's GPU adds them up. Unlike NCCL's own sums, these are bit-identical on any number of processes, and sums of
/// 16-bit types are rounded once. Used by the device's rank thread.
class NcclTree {
 public:
  struct Options {
    WorldShape nodes;  ///< the group's ranks that are near each other
    int rank = 0;
    int64_t most_bytes = kMostTreeBytes;  ///< of a buffer that are summed at once
  };
  /// `device` is the thread's; `place`: its place in the group.
  NcclTree(CudaDevice& device, NcclGroup& group, int place, const Options& options);

  /// Gives an all_reduce, a reduce or a reduce_scatter to the device's communication stream. May be recorded.
  void give(const CommCall& call);

 private:
  /// Sums all of a call's buffers at once.
  void give_at_once(const CommCall& call);
  void exchange(const std::vector<RankMessage>& messages, const CommCall& call, void* staging);

  CudaDevice& device_;
  NcclGroup& group_;
  const int place_;
  const int64_t most_bytes_;
  RankTreePlans plans_;
  TreeStaging staging_;
};

}  // namespace dptrain
