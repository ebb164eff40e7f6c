#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/comm_call.h"
#include "comm/rank_tree_plan.h"
#include "comm/world_shape.h"
#include "device/device.h"
#include "device/operator_log.h"

namespace dptrain {

/// A call that a rank would make.
struct LoggedCall {
  CommCall call;           ///< of its buffers the sizes alone
  int ranks = 1;           ///< of the group
  bool over_host = false;  ///< of copies in host memory
  int group = 0;           ///< 0: all ranks; others are numbered as they were formed, alike on all ranks
  int rank = 0;            ///< of the caller in the group
  /// The group's ranks, as the world numbers them; null: all.
  std::shared_ptr<const std::vector<int>> members = {};
  int64_t sent_bytes = 0;  ///< by this rank
  /// Of a key-value store on servers: the key that the rank's process sends there, or receives. Neither has a peer
  /// among the ranks then; what is sent begins once all ranks of the process that push the key have.
  std::optional<size_t> key = {};
  bool is_awaited = true;  ///< by this rank
  /// Operators that its device was given before the call was started, and before it was waited for.
  size_t started_after = 0;
  size_t awaited_after = 0;
  size_t awaited_calls = 0;  ///< calls that the rank had started before it waited
};

using CallLog = std::vector<LoggedCall>;

/// A world of ranks of which only the first are there, and none sends anything that is on a device.
struct LoggedWorld {
  int ranks = 1;                          ///< of the world, or of one of its groups
  std::optional<WorldShape> shape = {};   ///< of the world's processes; nothing: there is one
  std::vector<DType> recorded = {};       ///< as Communicator::can_be_recorded has it
  std::optional<TreeSums> by_tree = {};   ///< which GPUs make in memory of their own, where NCCL joins processes
  bool over_host = false;                 ///< its calls are of host memory, whatever the devices
  std::vector<CallLog>* calls = nullptr;  ///< one for each rank that is there; outlives the communicators
  int group = 0;                          ///< as LoggedCall has it, and so the next
  std::shared_ptr<const std::vector<int>> members = {};
  /// Seconds of an operator, for what a training measures before it begins. May be empty: all are as fast.
  std::function<double(const OperatorCost&)> operator_s = {};
};

/// Communicators of ranks whose devices compute nothing (meta_device.h): a call is checked and counted as everywhere
/// else, written down, and over at once; buffers stay as they are. Ranks that are there do meet: in barriers, and in
/// messages in host memory, which arrive, as ranks tell each other in them what they go by. These block until the
/// others have come, and throw after `abort`. Element i is the end of the group's rank i, and writes to the log
/// `log_numbers[i]`.
std::vector<std::unique_ptr<Communicator>> make_meta_communicators(const std::vector<Device*>& devices,
                                                                   const LoggedWorld& world,
                                                                   const std::vector<int>& log_numbers);

}  // namespace dptrain
