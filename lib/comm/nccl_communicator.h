#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/library_version.h"
#include "comm/communicator.h"
#include "comm/message_lanes.h"
#include "comm/rank_tree_plan.h"
#include "comm/thread_communicator.h"
#include "device/device.h"

namespace dptrain {

/// Communicators whose all-reduces of f32 are NCCL's, one NCCL communicator a device, and whose other calls go to
/// `others`. Within Communicator::begin_recordable other sums of 32 bits and more, broadcasts and all-gathers are
/// NCCL's, too; gathers, scatters, messages and sums of 16 bits can't be recorded. The devices are different GPUs: NCCL
/// refuses two ranks on one. NCCL's order of sums is its own, so that bits may change with its version and with the
/// links.
///
/// Throws 71, naming NCCL's reason, where they can't be formed, 75 where not within the deadline.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(const std::vector<Device*>& devices,
                                                                   std::vector<std::unique_ptr<Communicator>> others,
                                                                   double timeout_s);

/// Of make_nccl_world_communicators.
struct NcclWorldOptions {
  double timeout_s = 300;
  bool deterministic = true;
  RanksOfProcesses world;
  std::optional<WorldShape> nodes = {};  ///< of ranks near each other; by default those on one host
  int64_t most_bytes = kMostTreeBytes;   ///< as NcclTree has it
  std::vector<RankPair> messages = {};   ///< alike on all processes
};

/// The same for the ranks of a world that this process has. All of the world's are different GPUs, and all its
/// processes call this, in the same order as they form other groups of the exchange, of which these are
/// `kNcclWorldGroups`. NCCL's ranks find each other by an id that rank 0 sends to the others.
///
/// NCCL does broadcasts and all-gathers, and sums of 32 bits and more unless they are to be `deterministic`. Those, and
/// sums of 16 bits, so that they are rounded once, are made in the tree's order of what NCCL carries (nccl_tree.h).
/// Messages between the pairs of `messages` go from GPU to GPU over communicators of their own (nccl_messages.h). Other
/// messages, gathers and scatters go through host memory. What GPUs are given is to be done within the deadline, too
/// (see nccl_watch.h).
std::vector<std::unique_ptr<Communicator>> make_nccl_world_communicators(const std::vector<Device*>& devices,
                                                                         const NcclWorldOptions& options);
inline constexpr int kNcclWorldGroups = 3;

LibraryVersion nccl_library();

}  // namespace dptrain
