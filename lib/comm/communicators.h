#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/library_version.h"
#include "comm/communicator.h"
#include "comm/simulated_links.h"
#include "comm/thread_communicator.h"
#include "device/device.h"

namespace dptrain {

struct CommunicatorOptions {
  double timeout_s = 300;  ///< the deadline of every wait for another rank
  /// All sums in the tree's order; otherwise different GPUs leave all-reduces to NCCL, where it is built in.
  bool deterministic = true;
  /// What all calls take at least, over these links between the devices; everything goes through host memory then.
  std::shared_ptr<SimulatedLinks> links = {};
  /// The devices' ranks among those of the links; by default their places in the list.
  std::vector<int> link_ranks = {};
  /// Ranks of other processes belong to them too; the devices are those of this process's ranks.
  std::optional<RanksOfProcesses> world = {};
};

/// The libraries that carry sums between GPUs; none where NCCL isn't built in.
std::vector<LibraryVersion> comm_libraries();

/// Communicators for ranks that are threads of this process, one for each device in the order of the list, for buffers
/// in the devices' memory. All but NCCL sum in the tree's order, so that the kind changes no bit:
///   CPU workers                             read and write each other's memory (thread_communicator.h)
///   GPUs that reach each other's memory,    read and write it by kernels and copies (cuda_communicator.h)
///   and replicas on one GPU
///   different GPUs, not `deterministic`     the same, with NCCL's all-reduce (nccl_communicator.h)
///   anything else, and simulated links      through host memory (staged_communicator.h)
/// Between processes everything goes through host memory, too.
std::vector<std::unique_ptr<Communicator>> make_communicators(const std::vector<Device*>& devices,
                                                              const CommunicatorOptions& options = {});

}  // namespace dptrain
