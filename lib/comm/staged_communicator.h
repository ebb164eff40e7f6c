#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/device.h"

namespace dptrain {

/// The host memory that copies lie in.
enum class Staging {
  pinned,    ///< copied to and from at full speed; taking it may wait for all that the GPU is at
  pageable,  ///< for who may be called while the GPU waits for another process's
};

/// Buffers in `device`'s memory over a communicator of host memory: each is copied to the host before and from it
/// after. For lists of unlike devices, and for GPUs that don't reach each other. Collectives block even where they are
/// started; nothing overlaps with them.
std::unique_ptr<Communicator> make_staged_communicator(Device& device, std::unique_ptr<Communicator> host,
                                                       Staging staging);

}  // namespace dptrain
