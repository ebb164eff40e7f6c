#pragma once

#include "comm/tree_sum.h"
#include "device/cuda_device.h"

namespace dptrain {

/// The most inputs and outputs of a sum on a GPU.
constexpr int kMaxCudaTreeInputs = 64;

/// Gives elements begin to end - 1 of the sum to the device's communication stream. Inputs and outputs lie on GPUs that
/// this one reaches. The same bits as TreeSum::run. Throws 71 for more inputs or outputs than a sum on a GPU has.
void run_tree_sum(CudaDevice& device, const TreeSum& sum, int64_t begin, int64_t end);

/// Loads the kernels of such sums on the thread's device. Left to the first sum of a kind, that may wait for all that
/// the device is at work on, and in a collective for other ranks.
void load_tree_sums();

}  // namespace dptrain
