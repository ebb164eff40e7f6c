#include "comm/communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "comm/cuda_communicator.h"
#include "comm/nccl_communicator.h"
#include "comm/process_group.h"
#include "comm/staged_communicator.h"
#include "comm/thread_communicator.h"
#include "device/cuda_probe.h"
#include "device/with_cuda.h"

namespace dptrain {
namespace {

bool all_different(const std::vector<Device*>& devices) {
  std::set<int> gpus;
  for (const Device* device : devices) gpus.insert(device->id().index);
  return gpus.size() == devices.size();
}

constexpr const char* kNoGpu = "-";

/// The name that NCCL uses for this host, if the user has set one. Two processes may share a GPU as ranks of one
/// communicator only if their names differ.
std::string nccl_host() {
  const char* const id = std::getenv("NCCL_HOSTID");
  std::string host = id == nullptr ? "" : id;
  std::ranges::replace_if(
      host, [](unsigned char c) { return std::isspace(c) != 0; }, '_');
  return host;
}

/// NCCL's version, which must be the same everywhere, and the GPUs of this process as NCCL distinguishes them: "2.28.9
/// 1f00...@ 2e00...@". kNoGpu replaces a missing version or GPU.
std::string nccl_facts(const std::vector<Device*>& devices) {
  std::string facts = kNoGpu;
  for (const LibraryVersion& library : comm_libraries())
    facts = fmt::format("{}.{}.{}", library.loaded_major, library.loaded_minor, library.loaded_patch);
  const auto gpus = cuda_devices();
  for (const Device* device : devices) {
    const auto gpu = std::ranges::find(gpus, device->id().index, &CudaDeviceInfo::index);
    const bool is_gpu = device->kind() == DeviceKind::cuda && gpu != gpus.end();
    facts += ' ' + (is_gpu ? gpu->uuid + '@' + nccl_host() : kNoGpu);
  }
  return facts;
}

}  // namespace

bool world_has_nccl(const std::vector<Device*>& devices, const RanksOfProcesses& world, double timeout_s) {
  ProcessGroup processes(*world.exchange, world.processes, timeout_s);
  std::set<std::string> versions, gpus;
  for (const std::string& facts : processes.gather_everywhere(nccl_facts(devices))) {
    std::istringstream words(facts);
    std::string version, gpu;
    words >> version;
    versions.insert(version);
    while (words >> gpu) gpus.insert(gpu);
  }
  return versions.size() == 1 && !versions.contains(kNoGpu) && !gpus.contains(kNoGpu) &&
         static_cast<int>(gpus.size()) == world.shape.ranks();
}

int exchange_groups_of(const CommunicatorOptions& options) {
  if constexpr (kWithNccl)
    if (options.world_over_nccl) return kNcclWorldGroups;
  return 1;
}

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
  if constexpr (kWithNccl)
    if (options.world && options.world_over_nccl)
      return make_nccl_world_communicators(devices, {.timeout_s = options.timeout_s,
                                                     .deterministic = options.deterministic,
                                                     .world = *options.world,
                                                     .nodes = options.nodes,
                                                     .most_bytes = options.most_bytes,
                                                     .messages = options.messages});
  auto host = options.world
                  ? make_process_communicators(*options.world, options.timeout_s)
                  : make_thread_communicators(
                        static_cast<int>(devices.size()),
                        {.timeout_s = options.timeout_s, .links = options.links, .link_ranks = options.link_ranks});
  if (std::ranges::all_of(devices, of_kind(DeviceKind::cpu))) return host;
  std::vector<std::unique_ptr<Communicator>> staged;
  for (size_t rank = 0; rank < devices.size(); ++rank)
    staged.push_back(make_staged_communicator(*devices[rank], std::move(host[rank]), Staging::pinned));
  return staged;
}

}  // namespace dptrain
