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
/// that for the gradient. What goes one way between two devices is sent and received in one order anyway.
struct NcclLane {
  std::shared_ptr<NcclGroup> group;
  std::vector<RankPair> pairs;
};

/// Connects the pairs of a lane that this process has ends of: NCCL does so with the first message of a pair, whose
/// sender then waits for the receiver. Blocks until the other ends have come; all processes call it for the same lanes
/// in the same order. `first_rank`: that of the first device.
void connect_pairs(const NcclLane& lane, const std::vector<Device*>& devices, int first_rank);

/// A rank's ends of messages over NCCL: from GPU to GPU, while both compute. `meeting` compares the ends of each and
/// has the deadline. Used by the device's rank thread.
///
/// A GPU that waits with all it has been given, as where memory is given back, waits for what it receives as well, and
/// would hold up what the sender needs of it. It is therefore given a receive when that is waited for, and with it all
/// that comes before; what it does then may go beside what it was given since the receive was started.
class NcclMessages {
 public:
  /// `device` is the thread's; `place`: its place in the lanes' groups, which all ranks keep until they end, as NCCL
  /// ends a communicator together with all of its ranks.
  NcclMessages(CudaDevice& device, int place, int rank, std::vector<NcclLane> lanes);

  /// Whether such a message, sent or received, is one between a pair of a lane.
  bool carries(const CommCall& call) const { return way_of(call) != nullptr; }
  std::unique_ptr<CommWork> start(const CommCall& call, std::unique_ptr<CommWork> meeting);
  /// Of the lanes, for who aborts them.
  std::vector<NcclGroup*> groups() const;

 private:
  struct Receiving;
  struct Way {
    NcclGroup* group;
    RankPair pair;
    CudaStream stream{CudaStream::Priority::highest};
  };
  const Way* way_of(const CommCall& call) const;
  /// The GPU's end of a message, from `ready` on.
  std::unique_ptr<CudaWork> give(const CommCall& call, const CudaEvent& ready);

  CudaDevice& device_;
  const int place_;
  const int rank_;
  const std::vector<NcclLane> lanes_;
  std::vector<Way> ways_;
};

}  // namespace dptrain
