#include "ops/f32_operands.h"

#include <algorithm>

#include "ops/reorder.h"

namespace dptrain::ops::cpu {
namespace {

/// Elements of one tensor in a thread's part of the samples: 512 KB as f32. What is read and what is written take as
/// much each.
constexpr int64_t kElementsOfThread = 131072;

}  // namespace

Tensor as_f32(const Tensor& x, Layout layout) {
  return converted(x, {.dtype = DType::f32, .layout = layout, .purpose = MemoryPurpose::workspace});
}

Tensor f32_for(const Tensor& y) {
  if (y.dtype() == DType::f32) return y;
  return Tensor::empty(y.device(), y.shape(), {.layout = y.layout(), .purpose = MemoryPurpose::workspace});
}

void round_into(const Tensor& computed, const Tensor& y) {
  if (y.dtype() != DType::f32) reorder_into(computed, y);
}

int64_t samples_at_once(const Tensor& images) {
  const int64_t samples = std::max(int64_t{1}, images.shape()[0]);
  if (images.dtype() == DType::f32) return samples;
  const int64_t elements = std::max(int64_t{1}, images.storage_elements() / samples);
  return std::clamp(images.device().threads() * kElementsOfThread / elements, int64_t{1}, samples);
}

}  // namespace dptrain::ops::cpu
