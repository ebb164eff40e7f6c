#pragma once

#include <vector>

#include "comm/process_group.h"
#include "parallel/weight_digests.h"

namespace dptrain::train {

/// Gathers the digests of all processes' ranks, by rank of the world, on the main process; the other processes get
/// nothing. All processes must call it.
std::vector<parallel::WeightDigests> gather_weight_digests(ProcessGroup& group,
                                                           const std::vector<parallel::WeightDigests>& own);

}  // namespace dptrain::train
