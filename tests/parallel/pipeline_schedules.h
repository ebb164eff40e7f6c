#pragma once

#include "parallel/pipeline_schedule.h"

namespace dptrain::parallel {

inline constexpr auto kGpipe = PipelineSchedule::gpipe;
inline constexpr auto k1f1b = PipelineSchedule::one_forward_one_back;
inline constexpr auto kZeroBubble = PipelineSchedule::zero_bubble;
inline constexpr auto kInterleaved = PipelineSchedule::interleaved;
/// The schedules with one stage per device.
inline constexpr PipelineSchedule kSchedulesOfOneStage[] = {k1f1b, kZeroBubble, kGpipe};

}  // namespace dptrain::parallel
