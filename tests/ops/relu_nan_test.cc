// A NaN passes every ReLU of ours, so that a diverged net shows it in its loss at once. The ReLUs of oneDNN's and
// cuDNN's convolutions and of cuBLASLt's products may treat a NaN differently.

#include <cmath>

#include "ops/activation.h"
#include "ops/batch_norm.h"
#include "ops/linear.h"
#include "ops/pool2d.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace relu_nan_test {

using namespace testing;

class ReluNan : public ::testing::TestWithParam<DeviceRow> {
 protected:
  /// Ones, with a NaN in front.
  Tensor with_nan(const Shape& shape) const {
    std::vector<float> values(static_cast<size_t>(shape.elements()), 1.f);
    values[0] = NAN;
    return tensor_of(*device_, shape, values, shape.rank() == 4 ? Layout::nhwc : Layout::plain);
  }
  Tensor filled(const Shape& shape, float value) const {
    return tensor_of(*device_, shape, std::vector<float>(static_cast<size_t>(shape.elements()), value));
  }
  static void expect_nan_first(const Tensor& y) {
    const std::vector<float> values = values_of(y);
    EXPECT_TRUE(std::isnan(values.front())) << values.front();
    EXPECT_FALSE(std::isnan(values.back())) << "another sample's";
  }

  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(ReluNan, Alone) { expect_nan_first(ops::activation_forward(ops::kRelu, with_nan({2, 20}))); }

/// On GPUs a linear layer's ReLU is cuBLASLt's.
class ReluNanOfCpuWorkers : public ReluNan {};

TEST_P(ReluNanOfCpuWorkers, OfALinearLayer) {
  expect_nan_first(ops::linear_forward(with_nan({16, 20}), filled({40, 20}, 1), filled({40}, 0), true));
}

TEST_P(ReluNan, OfABatchNorm) {
  for (const bool with_residual : {false, true}) {
    const Shape shape = {2, 16, 3, 3};
    const ops::BatchNormInputs in{.x = with_residual ? filled(shape, 1) : with_nan(shape),
                                  .gamma = filled({16}, 1),
                                  .beta = filled({16}, 0),
                                  .running_mean = filled({16}, 0),
                                  .running_variance = filled({16}, 1),
                                  .residual = with_residual ? with_nan(shape) : Tensor()};
    expect_nan_first(ops::batch_norm_evaluation(in, {.relu = true}));
  }
}

TEST_P(ReluNan, OfAMaximum) {
  expect_nan_first(ops::pool2d_forward(with_nan({2, 20, 4, 4}), ops::Pooling::max, {.relu = true}).y);
}

std::vector<DeviceRow> cpu_rows() {
  std::vector<DeviceRow> rows = device_rows();
  std::erase_if(rows, [](const DeviceRow& row) { return row.device.kind != DeviceKind::cpu; });
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Devices, ReluNan, ::testing::ValuesIn(device_rows()), RowName());
INSTANTIATE_TEST_SUITE_P(Devices, ReluNanOfCpuWorkers, ::testing::ValuesIn(cpu_rows()), RowName());

}  // namespace relu_nan_test
}  // namespace dptrain
