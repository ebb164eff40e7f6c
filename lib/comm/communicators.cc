#include "comm/communicators.h"

#include <algorithm>
#include <set>
#include <utility>

#include "comm/cuda_communicator.h"
#include "comm/nccl_communicator.h"
#include "comm/staged_communicator.h"
#include "comm/thread_communicator.h"
#include "device/with_cuda.h"

namespace dptrain {
namespace {

bool all_different(const std::vector<Device*>& devices) {
  std::set<int> gpus;
  for (const Device* device : devices) gpus.insert(device->id().index);
  return gpus.size() == devices.size();
}

}  // namespace

std::vector<LibraryVersion> comm_libraries() {
  if constexpr (kWithNccl) return {nccl_library()};
  return {};
}

std::vector<std::unique_ptr<Communicator>> make_communicators(const std::vector<Device*>& devices,
                                                              const CommunicatorOptions& options) {
  const auto of_kind = [](DeviceKind kind) { return [kind](const Device* device) { return device->kind() == kind; }; };
  if constexpr (kWithCuda) {
    if (!options.links && !options.world && std::ranges::all_of(devices, of_kind(DeviceKind::cuda)) &&
        cuda_peers_reach(devices)) {
      auto direct = make_cuda_communicators(devices, options.timeout_s);
      if constexpr (kWithNccl) {
        if (!options.deterministic && devices.size() > 1 && all_different(devices))
          return make_nccl_communicators(devices, std::move(direct), options.timeout_s);
      }
      return direct;
    }
  }
  auto host = options.world
                  ? make_process_communicators(*options.world, options.timeout_s)
                  : make_thread_communicators(
                        static_cast<int>(devices.size()),
                        {.timeout_s = options.timeout_s, .links = options.links, .link_ranks = options.link_ranks});
  if (std::ranges::all_of(devices, of_kind(DeviceKind::cpu))) return host;
  std::vector<std::unique_ptr<Communicator>> staged;
  for (size_t rank = 0; rank < devices.size(); ++rank)
    staged.push_back(make_staged_communicator(*devices[rank], std::move(host[rank])));
  return staged;
}

}  // namespace dptrain
