#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator_kind.h"
#include "comm/simulated_links.h"
#include "comm/thread_communicator.h"

namespace dptrain {

/// CPU workers joined by simulated links of this speed.
inline CommunicatorKind link_communicators(const std::string& name, const LinkSpeed& speed) {
  const auto make = [speed](int size, double timeout_s) {
    std::vector<DeviceId> devices;
    for (int rank = 0; rank < size; ++rank) devices.push_back({DeviceKind::cpu, rank});
    return make_thread_communicators(
        size, {.timeout_s = timeout_s,
               .links = std::make_shared<SimulatedLinks>(LinkSpec{.all = speed, .pairs = {}}, devices)});
  };
  return {.name = name, .make = make};
}

}  // namespace dptrain
