#pragma once

#include "comm/communicator.h"
#include "device/device.h"

namespace dptrain::parallel {

/// Waits until every rank's device has done all that it was given. Around exchanges that are the first of their kind:
/// for them NCCL connects GPUs and loads kernels, which may wait for whatever a GPU has under way, and that is not to
/// be something that waits for this rank (Communicator::begin_recordable). Every rank calls it. Blocks.
inline void wait_until_all_idle(Device& device, Communicator& communicator) {
  device.synchronize();
  communicator.barrier();
}

}  // namespace dptrain::parallel
