#pragma once

#include <memory>
#include <vector>

#include "base/library_version.h"
#include "comm/communicator.h"
#include "device/device.h"

namespace dptrain {

/// Communicators whose all-reduces of f32 are NCCL's, one NCCL communicator a device, and whose other calls go to
/// `others`. The devices are different GPUs: NCCL refuses two ranks on one. NCCL's order of sums is its own, so that
/// bits may change with its version and with the links; they are recorded with a device's work.
///
/// Throws 71, naming NCCL's reason, where they can't be formed within the deadline.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(const std::vector<Device*>& devices,
                                                                   std::vector<std::unique_ptr<Communicator>> others,
                                                                   double timeout_s);

LibraryVersion nccl_library();

}  // namespace dptrain
