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
  double timeout_s = 300;  ///< deadline of every wait for another rank
  /// Makes all sums in the tree's order. If false, different GPUs leave sums of 32-bit types to NCCL, if it is built
  /// in.
  bool deterministic = true;
  /// Simulated links between the devices. Every call takes at least as long as these links need for it. All data then
  /// goes through host memory.
  std::shared_ptr<SimulatedLinks> links = {};
  /// The devices' ranks in `links`; by default their places in the list.
  std::vector<int> link_ranks = {};
  /// The world, if other processes have ranks of it too. The devices are then those of this process's ranks.
  std::optional<RanksOfProcesses> world = {};
  /// NCCL carries what ranks of several processes exchange. Only valid if `world_has_nccl` is true for a world that
  /// contains them.
  bool world_over_nccl = false;
  /// Which ranks of `world` are near each other; by default those on one host.
  std::optional<WorldShape> nodes = {};
  /// The most bytes of a buffer that are summed at once in the tree's order over NCCL.
  int64_t most_bytes = kMostTreeBytes;
  /// The pairs of ranks that exchange messages step after step. Their messages go from GPU to GPU if `world_over_nccl`.
  std::vector<RankPair> messages = {};
};

/// Whether NCCL can carry a world of several processes: all ranks are different GPUs, and NCCL is built in everywhere
/// and has one version. A GPU that processes share counts once for each of their values of NCCL_HOSTID, as in NCCL
/// itself. All processes of the world call this and get the same answer. Blocks for `timeout_s` at most. `devices` are
/// those of this process.
bool world_has_nccl(const std::vector<Device*>& devices, const RanksOfProcesses& world, double timeout_s);
/// How many groups of the job's exchange `make_communicators` forms for ranks of several processes. Processes with none
/// of these ranks must take as many group numbers.
int exchange_groups_of(const CommunicatorOptions& options);

/// The libraries that carry sums between GPUs. Empty if NCCL isn't built in.
std::vector<LibraryVersion> comm_libraries();

/// Makes communicators for ranks that are threads of this process, one per device in the order of the list. The buffers
/// are in the devices' memory. All kinds sum in the tree's order, so that the kind changes no bit. The exception is
/// NCCL unless `deterministic`.
///   CPU workers                             read and write each other's memory (thread_communicator.h)
///   GPUs that reach each other's memory,    read and write it by kernels and copies (cuda_communicator.h)
///   and replicas on one GPU
///   different GPUs, not `deterministic`     likewise, with NCCL's all-reduce (nccl_communicator.h)
///   different GPUs of several processes,    sums, copies and `messages` over NCCL, the rest through host memory
///   `world_over_nccl`                       (nccl_communicator.h)
///   anything else, and simulated links      through host memory (staged_communicator.h)
std::vector<std::unique_ptr<Communicator>> make_communicators(const std::vector<Device*>& devices,
                                                              const CommunicatorOptions& options = {});

}  // namespace dptrain
