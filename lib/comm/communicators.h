#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/library_version.h"
#include "comm/communicator.h"
#include "comm/message_lanes.h"
#include "comm/rank_tree_plan.h"
#include "comm/simulated_links.h"
#include "comm/thread_communicator.h"
#include "device/device.h"

namespace dptrain {

struct CommunicatorOptions {
  double timeout_s = 300;  ///< the deadline of every wait for another rank
  /// All sums in the tree's order; otherwise different GPUs leave those of 32 bits to NCCL, where it is built in.
  bool deterministic = true;
  /// What all calls take at least, over these links between the devices; everything goes through host memory then.
  std::shared_ptr<SimulatedLinks> links = {};
  /// The devices' ranks among those of the links; by default their places in the list.
  std::vector<int> link_ranks = {};
  /// Ranks of other processes belong to them too; the devices are those of this process's ranks.
  std::optional<RanksOfProcesses> world = {};
  /// NCCL carries what ranks of several processes exchange: `world_has_nccl` has said so of a world that they are in.
  bool world_over_nccl = false;
  /// Which ranks of that world are near each other; by default those on one host.
  std::optional<WorldShape> nodes = {};
  /// As many bytes of a buffer are summed at once there in the tree's order.
  int64_t most_bytes = kMostTreeBytes;
  /// Between which of its ranks messages go step after step: they go from GPU to GPU then.
  std::vector<RankPair> messages = {};
};

/// Whether all ranks of a world of several processes are different GPUs, and NCCL is built in everywhere and of one
/// version. A GPU that processes share counts once for each NCCL_HOSTID that they have, as NCCL itself has it. All of
/// the world's processes call this and get the same answer. Blocks, `timeout_s` at most. `devices`: those of this
/// process.
bool world_has_nccl(const std::vector<Device*>& devices, const RanksOfProcesses& world, double timeout_s);
/// How many groups of the job's exchange `make_communicators` forms for ranks of several processes: processes that have
/// none of these ranks number as many.
int exchange_groups_of(const CommunicatorOptions& options);

/// The libraries that carry sums between GPUs; none where NCCL isn't built in.
std::vector<LibraryVersion> comm_libraries();

/// Communicators for ranks that are threads of this process, one for each device in the order of the list, for buffers
/// in the devices' memory. All sum in the tree's order, so that the kind changes no bit, but NCCL unless
/// `deterministic`:
///   CPU workers                             read and write each other's memory (thread_communicator.h)
///   GPUs that reach each other's memory,    read and write it by kernels and copies (cuda_communicator.h)
///   and replicas on one GPU
///   different GPUs, not `deterministic`     the same, with NCCL's all-reduce (nccl_communicator.h)
///   different GPUs of several processes,    sums, copies and `messages` over NCCL, the rest through host memory
///   `world_over_nccl`                       (nccl_communicator.h)
///   anything else, and simulated links      through host memory (staged_communicator.h)
std::vector<std::unique_ptr<Communicator>> make_communicators(const std::vector<Device*>& devices,
                                                              const CommunicatorOptions& options = {});

}  // namespace dptrain
