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

/// Makes communicators whose all-reduces of f32 use NCCL, with one NCCL communicator per device. Their other calls go
/// to `others`. Within Communicator::begin_recordable, NCCL also carries other sums of 32 bits and more, broadcasts and
/// all-gathers. Gathers, scatters, messages and sums of 16-bit types can't be recorded. The devices must be different
/// GPUs, since NCCL refuses two ranks on one. NCCL's order of sums is its own, so bits may change with its version and
/// with the links.
///
/// Throws an error with exit code 71 and NCCL's reason if they can't be formed, and with exit code 75 if that isn't
/// done within the deadline.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(const std::vector<Device*>& devices,
                                                                   std::vector<std::unique_ptr<Communicator>> others,
                                                                   double timeout_s);

/// Options of make_nccl_world_communicators.
struct NcclWorldOptions {
  double timeout_s = 300;
  bool deterministic = true;
  RanksOfProcesses world;
  std::optional<WorldShape> nodes = {};  ///< ranks near each other; by default those on one host
  int64_t most_bytes = kMostTreeBytes;   ///< see NcclTree::Options
  std::vector<RankPair> messages = {};   ///< the same on all processes
};

/// Makes such communicators for this process's ranks of a world. All ranks of the world must be different GPUs. All
/// processes of the world call this, in the same order as they form other groups of the exchange; it takes
/// `kNcclWorldGroups` groups. NCCL's ranks find each other by an id that rank 0 sends to the others.
///
/// NCCL carries broadcasts and all-gathers. It also makes sums of 32 bits and more, unless they must be
/// `deterministic`. Deterministic sums are made in the tree's order from data that NCCL carries (nccl_tree.h). So are
/// sums of 16-bit types, which are then rounded only once. Messages between the pairs of `messages` go from GPU to GPU
/// over communicators of their own (nccl_messages.h). Other messages, gathers and scatters go through host memory. GPUs
/// must finish their work within the deadline, too (see nccl_watch.h).
std::vector<std::unique_ptr<Communicator>> make_nccl_world_communicators(const std::vector<Device*>& devices,
                                                                         const NcclWorldOptions& options);
inline constexpr int kNcclWorldGroups = 3;

LibraryVersion nccl_library();

}  // namespace dptrain
