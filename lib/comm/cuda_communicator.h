#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"

namespace dptrain {

/// Whether each of these GPUs reads and writes the memory of all others: replicas on one GPU always do; for two GPUs
/// the link is tried with 1 MiB each way, since some boards promise what they don't keep.
bool cuda_peers_reach(const std::vector<Device*>& devices);

/// Communicators of buffers in GPU memory.
///
/// A call returns when its work has been given to the GPUs: its result is there for whatever the rank's device is given
/// next. The ranks' threads wait for each other, with the deadline; the GPUs wait for each other by events. Every
/// rank's GPU computes its share of a sum out of all ranks' memory and writes it to all of them.
std::vector<std::unique_ptr<Communicator>> make_cuda_communicators(const std::vector<Device*>& devices,
                                                                   double timeout_s);

}  // namespace dptrain
