#pragma once

#include "comm/comm_call.h"
#include "device/device.h"
#include "device/timeline.h"

namespace dptrain {

/// The span that shows a call on a timeline: "all_reduce" or "send to rank 1", with type and size. `other` replaces the
/// rank's name if it is set.
TimelineSpan exchange_span(const CommCall& call, const std::string& other = {});
/// Begins the call's span on the device's communication timeline, if it has one: see Timeline::begin.
int64_t begin_exchange(Device& device, const CommCall& call);

}  // namespace dptrain
