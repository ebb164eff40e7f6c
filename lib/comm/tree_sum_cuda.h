#pragma once

#include "comm/tree_sum.h"
#include "device/cuda_device.h"

namespace dptrain {

/// The most inputs and outputs of a sum on a GPU.
constexpr int kMaxCudaTreeInputs = 64;

/// Gives elements begin to end - 1 of the sum to the device's communication stream. This GPU must reach the memory of
/// all inputs and outputs. The result is bit-identical to TreeSum::run. Throws an error with exit code 71 if there are
/// too many inputs or outputs.
void run_tree_sum(CudaDevice& device, const TreeSum& sum, int64_t begin, int64_t end);

/// Loads the kernels of such sums on the thread's device. Without it the first sum of a kind loads them, which may wait
/// for all of the device's work, and in a collective for other ranks.
void load_tree_sums();

}  // namespace dptrain
