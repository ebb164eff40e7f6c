#pragma once

#include "comm/communicator.h"
#include "device/device.h"

namespace dptrain::parallel {

/// Waits until every rank's device has finished all the work that it was given. Every rank calls it. Blocks.
///
/// Used around exchanges that are the first of their kind. NCCL then connects GPUs and loads kernels, which may wait
/// for all work of a GPU. None of that work may wait for this rank; see Communicator::begin_recordable.
inline void wait_until_all_idle(Device& device, Communicator& communicator) {
  device.synchronize();
  communicator.barrier();
}

}  // namespace dptrain::parallel
