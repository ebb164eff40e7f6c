#pragma once

#include <vector>

#include "comm/process_group.h"
#include "parallel/weight_digests.h"

namespace dptrain::train {

/// The digests of all processes' ranks, by rank of the world, on the main one; elsewhere nothing. All of them call it.
std::vector<parallel::WeightDigests> gather_weight_digests(ProcessGroup& group,
                                                           const std::vector<parallel::WeightDigests>& own);

}  // namespace dptrain::train
