#pragma once

#include "comm/comm_call.h"
#include "device/device.h"
#include "device/timeline.h"

namespace dptrain {

/// How a call is shown on a timeline: "all_reduce", "send to rank 1", with what it is of. `other`: in place of the
/// rank.
TimelineSpan exchange_span(const CommCall& call, const std::string& other = {});
/// Begins it on the timeline of what the device exchanges by itself, where there is one: see Timeline::begin.
int64_t begin_exchange(Device& device, const CommCall& call);

}  // namespace dptrain
