#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Copies values that an optimizer looks up to its device.
template <class T>
Tensor optimizer_table(Device& device, const Shape& shape, const std::vector<T>& values) {
  const Tensor table = Tensor::empty(device, shape, {.dtype = dtype_of<T>(), .purpose = MemoryPurpose::optimizer});
  device.upload(table.raw(), values.data(), table.bytes());
  return table;
}

}  // namespace dptrain::ops
