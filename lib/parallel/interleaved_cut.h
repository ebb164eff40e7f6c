#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/pipeline_cut.h"

namespace dptrain::parallel {

/// Returns a cut for several stages per device, where the stages are dealt out to the devices in turn. It compares cuts
/// by the total cost of each device's stages.
///
/// The search starts from each of `begins` and moves one or two ends of stages at a time. It prefers cuts whose devices
/// exceed `limit_bytes` (0: no limit) by fewer bytes, then cuts whose step takes less time. A backward pass is assumed
/// to take twice as long as a forward pass.
///
/// The result is a local optimum: a better cut may exist, and the result may exceed the limit although another cut
/// fits.
PipelineCut interleaved_cut(std::span<const UnitCost> units, const PipelineStep& step, int64_t limit_bytes,
                            const std::vector<PipelineCut>& begins);

}  // namespace dptrain::parallel
