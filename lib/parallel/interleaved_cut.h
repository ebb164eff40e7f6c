#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/pipeline_cut.h"

namespace dptrain::parallel {

/// A cut for several stages a device, all around, where what a device's stages come to together decides. It is searched
/// for from each of `begins` on, by moving one or two ends of stages at a time: as long as devices are over
/// `limit_bytes` (0: none) to one by which they are over by less, else to one by which a step takes less time. So it is
/// close to the best, but may be another, and may not fit where another one would. A backward pass is taken to be twice
/// as long as a forward pass.
PipelineCut interleaved_cut(std::span<const UnitCost> units, const PipelineStep& step, int64_t limit_bytes,
                            const std::vector<PipelineCut>& begins);

}  // namespace dptrain::parallel
