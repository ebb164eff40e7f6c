#include "comm/communicators.h"

#include <algorithm>

#include "comm/cuda_communicator.h"
#include "comm/staged_communicator.h"
#include "comm/thread_communicator.h"
#include "device/with_cuda.h"

namespace dptrain {

std::vector<std::unique_ptr<Communicator>> make_communicators(const std::vector<Device*>& devices,
                                                              const CommunicatorOptions& options) {
  const auto of_kind = [](DeviceKind kind) { return [kind](const Device* device) { return device->kind() == kind; }; };
  if constexpr (kWithCuda) {
    if (std::ranges::all_of(devices, of_kind(DeviceKind::cuda)) && cuda_peers_reach(devices))
      return make_cuda_communicators(devices, options.timeout_s);
  }
  auto host = make_thread_communicators(static_cast<int>(devices.size()), {.timeout_s = options.timeout_s});
  if (std::ranges::all_of(devices, of_kind(DeviceKind::cpu))) return host;
  std::vector<std::unique_ptr<Communicator>> staged;
  for (size_t rank = 0; rank < devices.size(); ++rank)
    staged.push_back(make_staged_communicator(*devices[rank], std::move(host[rank])));
  return staged;
}

}  // namespace dptrain
