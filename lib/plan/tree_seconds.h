#pragma once

#include "comm/comm_call.h"
#include "comm/world_shape.h"
#include "plan/device_figures.h"
#include "plan/links_file.h"

namespace dptrain::plan {

/// Seconds of a sum over GPUs of several hosts that NCCL carries and that is made in the tree's order
/// (rank_tree_plan.h). `shape`: the ranks of each host.
double tree_seconds(const CommCall& call, const WorldShape& shape, const HostLinks& hosts,
                    const DeviceFigures& figures);

}  // namespace dptrain::plan
