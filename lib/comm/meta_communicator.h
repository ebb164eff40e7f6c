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
  CommCall call;           ///< its buffers have only sizes
  int ranks = 1;           ///< in the group
  bool over_host = false;  ///< its buffers are copies in host memory
  int group = 0;           ///< 0: all ranks; other groups are numbered as they were formed, with the same numbers on
                           ///< all ranks
  int rank = 0;            ///< the caller's rank in the group
  /// The group's ranks, numbered as in the world; null: all.
  std::shared_ptr<const std::vector<int>> members = {};
  int64_t sent_bytes = 0;  ///< by this rank
  /// For a key-value store on servers: the key that the rank's process sends to a server or receives. The call then has
  /// no peer rank. Sending begins once all ranks of the process that push the key have called.
  std::optional<size_t> key = {};
  bool is_awaited = true;  ///< this rank waits for it
  /// How many operators the device had been given before the call was started, and before it was waited for.
  size_t started_after = 0;
  size_t awaited_after = 0;
  size_t awaited_calls = 0;  ///< calls that the rank had started before it waited for this one
};

using CallLog = std::vector<LoggedCall>;

/// A world of ranks of which only the first exist here. Nothing on a device is sent.
struct LoggedWorld {
  int ranks = 1;                          ///< in the world, or in one of its groups
  std::optional<WorldShape> shape = {};   ///< the world's processes; nothing: there is one
  std::vector<DType> recorded = {};       ///< see Communicator::can_be_recorded
  std::optional<TreeSums> by_tree = {};   ///< sums that GPUs make in memory of their own, if NCCL joins processes
  bool over_host = false;                 ///< its calls are over host memory, whatever the devices
  std::vector<CallLog>* calls = nullptr;  ///< one for each rank that exists here; outlives the communicators
  int group = 0;                          ///< see LoggedCall::group, and `members` see LoggedCall::members
  std::shared_ptr<const std::vector<int>> members = {};
  /// Seconds that an operator takes, for measurements before a run begins. If empty, all operators are equally fast.
  std::function<double(const OperatorCost&)> operator_s = {};
};

/// Makes communicators for ranks whose devices compute nothing (meta_device.h). A call is checked and counted as usual,
/// logged, and done at once; buffers stay unchanged. Barriers and messages in host memory are real, because ranks agree
/// on settings in such messages. They block until the other rank or ranks have come, and throw after `abort`. Element i
/// is rank i of the group and writes to the log `log_numbers[i]`.
std::vector<std::unique_ptr<Communicator>> make_meta_communicators(const std::vector<Device*>& devices,
                                                                   const LoggedWorld& world,
                                                                   const std::vector<int>& log_numbers);

}  // namespace dptrain
