#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "ops/reorder.h"
#include "support/formula_values.h"
#include "tensor/tensor.h"

namespace dptrain::testing {

/// Values centre + scale * u(seed, tensor, i), where formula_uniform gives u.
struct Formula {
  uint64_t seed = 11;
  uint64_t tensor = 0;
  double centre = 0;
  double scale = 1;

  std::vector<float> values(int64_t count) const {
    std::vector<float> result(static_cast<size_t>(count));
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = static_cast<float>(centre + scale * formula_uniform(seed, tensor, i));
    return result;
  }
};

inline Tensor tensor_of(Device& device, const Shape& shape, const std::vector<float>& values,
                        Layout layout = Layout::plain) {
  return ops::reorder(Tensor::from(device, shape, values), layout);
}

inline Tensor formula_tensor(Device& device, const Shape& shape, const Formula& formula,
                             Layout layout = Layout::plain) {
  return tensor_of(device, shape, formula.values(shape.elements()), layout);
}

/// The logical values, whatever the layout.
inline std::vector<float> values_of(const Tensor& tensor) { return ops::reorder(tensor, Layout::plain).values(); }

/// All elements that the tensor stores, padded lanes included, in memory order.
template <class T = float>
std::vector<T> stored_values(const Tensor& tensor) {
  std::vector<T> values(static_cast<size_t>(tensor.storage_elements()));
  tensor.device().download(values.data(), tensor.data<T>(), tensor.bytes());
  return values;
}

/// Expects every lane past the last channel to be zero: sums over the whole storage rely on it.
inline void expect_zero_padding(const Tensor& tensor) {
  const int64_t block = layout_block(tensor.layout());
  if (block == 1) return;
  const int64_t channels = tensor.shape()[1], blocks = (channels + block - 1) / block;
  const int64_t positions = tensor.shape()[2] * tensor.shape()[3];
  const std::vector<float> values = stored_values(tensor);
  int64_t wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t channel = at / (positions * block) % blocks * block + at % block;
    wrong += channel >= channels && values[i] != 0.f;
  }
  EXPECT_EQ(wrong, 0) << "padded lanes of " << tensor.text() << " that aren't zero";
}

}  // namespace dptrain::testing
