#pragma once

#include <string>
#include <vector>

#include "autograd/parameter.h"
#include "support/formula_tensor.h"

namespace dptrain::testing {

/// A single parameter with memory of its own.
inline Parameter test_parameter(Device& device, const Shape& shape, const std::vector<float>& values,
                                Layout layout = Layout::plain, const std::string& name = "weight") {
  Parameter parameter(shape, layout);
  parameter.set_identity(name, 0);
  parameter.bind(tensor_of(device, shape, values, layout));
  parameter.bind_gradient(Tensor::zeros(device, shape, {.layout = layout}));
  return parameter;
}

}  // namespace dptrain::testing
