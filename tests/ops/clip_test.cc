// The norm of gradients is limited as by PyTorch's clip_grad_norm_, in the update that reads the factor.

#include "ops/clip.h"

#include <limits>

#include "ops/pytorch_cases.h"
#include "ops/sgd.h"
#include "ops/square_sum.h"
#include "support/test_device.h"

namespace dptrain {
namespace clip_test {

using namespace testing;

Tensor factor_of(const Tensor& gradients, double most, const Tensor& factor = {}) {
  return ops::clip_factor(ops::square_sum(gradients), most, factor);
}

class Clip : public ::testing::TestWithParam<PyTorchCase> {};

TEST_P(Clip, UpdatesByTheClippedGradient) {
  const auto& values = GetParam().values;
  const auto device = GetParam().row.open();
  const int64_t elements = values["elements"];
  const Tensor gradients = formula_tensor(*device, {elements}, {.tensor = kOutputGradient});
  // From zero, a step with learning rate -1 leaves the gradient that it was given.
  const Tensor weights = Tensor::zeros(*device, {elements});
  ops::sgd_step(weights, gradients, {},
                {.learning_rate = -1, .control = {.gradient_factor = factor_of(gradients, values["most"])}});
  expect_pytorch(values["gradients"], weights, GetParam().row.tolerance);
}

TEST_P(Clip, CountsAFactorThatGradientsHaveAlready) {
  const auto& values = GetParam().values;
  const auto device = GetParam().row.open();
  const Tensor gradients = formula_tensor(*device, {values["elements"]}, {.tensor = kOutputGradient});
  const double most = values["most"];
  const float alone = factor_of(gradients, most).values()[0];
  // A factor of a quarter on the gradients, and a limit of a quarter of the norm.
  const float quarter = factor_of(gradients, most / 4, tensor_of(*device, {1}, {0.25f})).values()[0];
  EXPECT_NEAR(quarter, alone / 4, 1e-5 * alone);
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Clip, ::testing::ValuesIn(pytorch_cases("clip")), CaseName());

class ClipNorm : public ::testing::TestWithParam<DeviceRow> {};

TEST_P(ClipNorm, IsThatOfTheWholeInAnyRanges) {
  const auto device = GetParam().open();
  const Tensor gradients = formula_tensor(*device, {100'000}, {.tensor = kX});
  const Tensor factor = tensor_of(*device, {1}, {0.5f});
  const Tensor squares = ops::no_squares(*device);
  const int64_t cuts[] = {0, 16, 70'000, 100'000};
  for (const int64_t i : {2, 0, 1})
    ops::add_squares(gradients.window(cuts[i], {cuts[i + 1] - cuts[i]}, Layout::plain), squares);
  for (const double most : {1.0, 1e9})
    EXPECT_EQ(ops::clip_factor(squares, most, factor).values(), factor_of(gradients, most, factor).values());
}

TEST_P(ClipNorm, LeavesTheFactorWhereItIsNoNumber) {
  const auto device = GetParam().open();
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor factor = tensor_of(*device, {1}, {0.5f});
  EXPECT_EQ(factor_of(tensor_of(*device, {3}, {1, nan, infinity}), 1, factor).values()[0], 0.5f);
  EXPECT_EQ(factor_of(tensor_of(*device, {3}, {1, 2, infinity}), 1, factor).values()[0], 0.f);
  EXPECT_EQ(factor_of(tensor_of(*device, {3}, {0, 0, 0}), 1, factor).values()[0], 0.5f);
}

INSTANTIATE_TEST_SUITE_P(Devices, ClipNorm, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace clip_test
}  // namespace dptrain
