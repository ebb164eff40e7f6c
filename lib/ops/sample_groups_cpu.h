#pragma once

#include <algorithm>
#include <vector>

#include "device/device.h"
#include "ops/conv2d.h"
#include "ops/sample_kernels.h"
#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

/// How samples are divided into groups that are computed at once. A group is one or two vectors with one sample per
/// lane.
struct SampleGroups {
  SampleGroups(const Device& device, int64_t count_of_samples) : samples(count_of_samples) {
    const auto rounds = [&](int64_t of) { return parts(parts(samples, of * kernels.lanes), device.threads()) * of; };
    // Two vectors use each loaded weight twice.
    vectors = rounds(2) <= rounds(1) ? 2 : 1;
    lanes = vectors * kernels.lanes;
    count = parts(samples, lanes);
  }
  static int64_t parts(int64_t count, int64_t of) { return (count + of - 1) / of; }
  int64_t first(int64_t group) const { return group * lanes; }
  int64_t in(int64_t group) const { return std::min(lanes, samples - first(group)); }

  const SampleKernels& kernels = sample_kernels();
  int64_t samples, vectors, lanes, count;
};

/// Workspace of `parts` pieces with `numbers` numbers each.
inline Tensor sample_scratch(Device& device, int64_t parts, int64_t numbers) {
  return Tensor::empty(device, {parts, numbers}, {.purpose = MemoryPurpose::workspace});
}

/// Returns a plain weight [O, C, U, V] as [O, U, V, C], or if `turned` as [C, U, V, O] with U and V reversed.
Tensor packed_by_pixel(const Tensor& weight, bool turned);

/// The gradients of a weight [O, C, U, V] and its bias that the threads have summed up, each over its part of the
/// samples.
struct WeightSums {
  const Tensor& memory;             ///< [parts, ..]; each part begins with [O, U, V, C]
  const std::vector<double>& bias;  ///< [parts, O]
  int64_t of_output, of_row;        ///< distance between outputs' sums, and between a window's rows
};

/// Adds up the parts in order and writes the gradients.
void fold_weight_sums(const WeightSums& sums, const Conv2dWeightGradients& gradients);

}  // namespace dptrain::ops::cpu
