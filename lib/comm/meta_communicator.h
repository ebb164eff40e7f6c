#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/comm_call.h"
#include "device/device.h"

namespace dptrain {

/// A call that a rank would make.
struct LoggedCall {
  CommCall call;           ///< of its buffers the sizes alone
  int ranks = 1;           ///< of the group
  bool over_host = false;  ///< of copies in host memory
  int64_t sent_bytes = 0;  ///< by this rank
  /// Operators that its device was given before the call was started, and before it was waited for.
  size_t started_after = 0;
  size_t awaited_after = 0;
};

using CallLog = std::vector<LoggedCall>;

/// A world of ranks of which only some are there, and none sends anything.
struct LoggedWorld {
  int ranks = 1;  ///< of the world
  /// All-reduces may be recorded with a GPU's work, as NCCL's may.
  bool can_be_recorded = false;
  bool over_host = false;                 ///< its calls are of host memory, whatever the devices
  std::vector<CallLog>* calls = nullptr;  ///< one for each rank that is there; outlives the communicators
};

/// Communicators of ranks whose devices compute nothing (meta_device.h): a call is checked and counted as everywhere
/// else, written down, and over at once; buffers stay as they are. Element i is the end of the group's rank i, and
/// writes to the log `log_numbers[i]`.
std::vector<std::unique_ptr<Communicator>> make_meta_communicators(const std::vector<Device*>& devices,
                                                                   const LoggedWorld& world,
                                                                   const std::vector<int>& log_numbers);

}  // namespace dptrain
