#pragma once

#include <cstdint>
#include <span>

#include "parallel/pipeline_cut.h"

namespace dptrain::parallel {

/// A cut for several stages a device, all around, where what a device's stages come to together decides: one by which a
/// step takes the least time, of those whose devices fit in `limit_bytes` (0: any), as far as moving one or two ends of
/// stages at a time, from `begin` on, finds it. Where none of these fits, one whose largest device is the smallest. A
/// backward pass is taken to be twice as long as a forward pass.
PipelineCut interleaved_cut(std::span<const UnitCost> units, const PipelineStep& step, int64_t limit_bytes,
                            const PipelineCut& begin);

}  // namespace dptrain::parallel
