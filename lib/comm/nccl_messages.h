#pragma once

#include <memory>
#include <vector>

#include "comm/comm_call.h"
#include "comm/cuda_work.h"
#include "comm/message_lanes.h"
#include "comm/nccl_group.h"
#include "device/cuda_device.h"

namespace dptrain {

/// A lane of messages (see message_lanes.h) with an NCCL communicator of its own. NCCL does everything on one
/// communicator in one order. On a shared one, a stage's gradient would wait for the next activation, and that
/// activation for the gradient. Messages one way between two devices are sent and received in one order anyway.
struct NcclLane {
  std::shared_ptr<NcclGroup> group;
  std::vector<RankPair> pairs;
};

/// Connects the pairs of a lane of which this process has ends. NCCL connects a pair with its first message, whose
/// sender then waits for the receiver. Blocks until the other ends have come. All processes call it for the same lanes
/// in the same order. `first_rank` is the rank of the first device.
void connect_pairs(const NcclLane& lane, const std::vector<Device*>& devices, int first_rank);

/// A rank's ends of messages over NCCL, from GPU to GPU while both compute. `meeting` compares the ends of each message
/// and enforces the deadline. Used by the device's rank thread.
///
/// A receive is given to the GPU only when the rank waits for it. Some calls, such as freeing memory, wait for
/// everything that the GPU has been given. A receive among that work would be waited for too, and would hold up the
/// work that its sender needs. When the receive is given, it follows the work that came before its start. It may run
/// beside work given after its start.
class NcclMessages {
 public:
  /// `device` is the thread's. `place` is its place in the lanes' groups. All ranks keep the groups until they end,
  /// because NCCL ends a communicator together with all of its ranks.
  NcclMessages(CudaDevice& device, int place, int rank, std::vector<NcclLane> lanes);

  /// Whether a lane has the pair of ranks of this message, sent or received.
  bool carries(const CommCall& call) const { return way_of(call) != nullptr; }
  std::unique_ptr<CommWork> start(const CommCall& call, std::unique_ptr<CommWork> meeting);
  /// The lanes' groups, for a caller that aborts them.
  std::vector<NcclGroup*> groups() const;

 private:
  struct Receiving;
  struct Way {
    NcclGroup* group;
    RankPair pair;
    CudaStream stream{CudaStream::Priority::highest};
  };
  const Way* way_of(const CommCall& call) const;
  /// Gives the GPU its end of a message, to run after `ready`.
  std::unique_ptr<CudaWork> give(const CommCall& call, const CudaEvent& ready);

  CudaDevice& device_;
  const int place_;
  const int rank_;
  const std::vector<NcclLane> lanes_;
  std::vector<Way> ways_;
};

}  // namespace dptrain
