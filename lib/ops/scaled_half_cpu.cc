#include "ops/scaled_half_cpu.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "device/parallel_for.h"
#include "ops/half_range.h"
#include "tensor/half_precision.h"

namespace dptrain::ops::cpu {
namespace {

/// Below this many elements another thread costs more than it saves.
constexpr int64_t kGrain = 16384;

HalfRange range_of(const Tensor& bound) { return half_range(std::bit_cast<uint32_t>(*bound.data<float>())); }

}  // namespace

Tensor largest_magnitude(const Tensor& values) {
  const Tensor largest = Tensor::empty(values.device(), {1}, {.purpose = MemoryPurpose::workspace});
  // Magnitudes are compared as integers, which have the same order, with NaNs last.
  std::vector<int32_t> of_parts(static_cast<size_t>(values.device().threads()));
  parallel_parts(values.device(), values.storage_elements(), kGrain, [&](int64_t part, int64_t begin, int64_t end) {
    const float* from = values.data<float>();
    int32_t most = 0;
    for (int64_t i = begin; i < end; ++i) most = std::max(most, std::bit_cast<int32_t>(from[i]) & 0x7fffffff);
    of_parts[static_cast<size_t>(part)] = most;
  });
  *largest.data<float>() = std::bit_cast<float>(*std::ranges::max_element(of_parts));
  return largest;
}

void scale_to_f16(const Tensor& values, const Tensor& bound, const Tensor& to) {
  const auto factor = std::bit_cast<float>(range_of(bound).factor);
  parallel_ranges(values.device(), values.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    const float* from = values.data<float>();
    Float16* halves = to.data<Float16>();
    for (int64_t i = begin; i < end; ++i) halves[i] = rounded_to<Float16>(from[i] * factor);
  });
}

void scale_from_f16(const Tensor& halves, const Tensor& bound, const Tensor& to) {
  const auto inverse = std::bit_cast<float>(range_of(bound).inverse);
  parallel_ranges(to.device(), to.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    const Float16* from = halves.data<Float16>();
    float* values = to.data<float>();
    for (int64_t i = begin; i < end; ++i) values[i] = widened(from[i]) * inverse;
  });
}

}  // namespace dptrain::ops::cpu
