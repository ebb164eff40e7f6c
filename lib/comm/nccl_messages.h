#pragma once

#include <memory>
#include <vector>

#include "comm/comm_call.h"
#include "comm/cuda_work.h"
#include "comm/message_lanes.h"
#include "comm/nccl_group.h"
#include "device/cuda_device.h"

namespace dptrain {

/// A lane of messages (see message_lanes.h), and the NCCL communicator of its own that carries them: of one
/// communicator NCCL does everything in one order, in which a stage's gradient would wait for the next activation, and
/// that for the gradient. A GPU that waits with all it has been given, as where memory is given back, waits for what it
/// receives as well: whoever receives ahead is not to make the sender wait for what comes after.
struct NcclLane {
  std::shared_ptr<NcclGroup> group;
  std::vector<RankPair> pairs;
};

/// Connects the pairs of a lane that this process has ends of: NCCL does so with the first message of a pair, whose
/// sender then waits for the receiver. Blocks until the other ends have come; all processes call it for the same lanes
/// in the same order. `first_rank`: that of the first device.
void connect(const NcclLane& lane, const std::vector<Device*>& devices, int first_rank);

/// A rank's ends of messages over NCCL: from GPU to GPU, while both compute. Used by the device's rank thread.
class NcclMessages {
 public:
  /// `device` is the thread's; `place`: its place in the lanes' groups.
  NcclMessages(CudaDevice& device, int place, int rank, const std::vector<NcclLane>& lanes);

  /// Whether such a message, sent or received, is one between a pair of a lane.
  bool carries(const CommCall& call) const { return way_of(call) != nullptr; }
  /// Gives the GPU its end of a message, which follows all that it has been given, and goes on beside what it is given
  /// next.
  std::unique_ptr<CudaWork> give(const CommCall& call);
  void abort(const std::string& cause, ExitCode code);

 private:
  struct Way {
    std::shared_ptr<NcclGroup> group;
    RankPair pair;
    CudaStream stream;
  };
  const Way* way_of(const CommCall& call) const;

  CudaDevice& device_;
  const int place_;
  const int rank_;
  std::vector<Way> ways_;
  CudaEvent ready_;
};

}  // namespace dptrain
