#pragma once

#include "comm/comm_call.h"
#include "comm/world_shape.h"
#include "plan/device_figures.h"
#include "plan/links_file.h"

namespace dptrain::plan {

/// What a sum of GPUs of several hosts takes that is made in the tree's order of what NCCL carries (rank_tree_plan.h).
/// `shape`: the ranks of each host.
double tree_seconds(const CommCall& call, const WorldShape& shape, const HostLinks& hosts,
                    const DeviceFigures& figures);

}  // namespace dptrain::plan
