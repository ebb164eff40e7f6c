#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/device.h"

namespace dptrain {

/// The kind of host memory for copies.
enum class Staging {
  pinned,    ///< fast copies; allocating it may wait for all of the GPU's work
  pageable,  ///< for calls that may come while the GPU waits for another process's GPU
};

/// Makes a communicator of buffers in `device`'s memory from one of host memory. Each buffer is copied to the host
/// before a call and back after it. For lists of unlike devices, and for GPUs that can't reach each other's memory.
/// Collectives block even if they are only started; nothing overlaps with them.
std::unique_ptr<Communicator> make_staged_communicator(Device& device, std::unique_ptr<Communicator> host,
                                                       Staging staging);

}  // namespace dptrain
