#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"

namespace dptrain {

/// Whether each of these GPUs reads and writes the memory of all others. Replicas on one GPU always do. Between two
/// GPUs the link is tested with 1 MiB each way, because some boards report peer access that doesn't work.
bool cuda_peers_reach(const std::vector<Device*>& devices);

/// Makes communicators of buffers in GPU memory.
///
/// A call returns when its work has been given to the GPUs. Whatever the rank's device is given next sees the result.
/// The ranks' threads wait for each other, with the deadline; the GPUs wait for each other by events. Every rank's GPU
/// computes its share of a sum from all ranks' memory and writes the result to all of them.
std::vector<std::unique_ptr<Communicator>> make_cuda_communicators(const std::vector<Device*>& devices,
                                                                   double timeout_s);

}  // namespace dptrain
