// The norm of gradients is brought down as PyTorch's clip_grad_norm_ does it, in the update that reads the factor.

#include "ops/clip.h"

#include "ops/pytorch_cases.h"
#include "ops/sgd.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

using namespace testing;

class Clip : public ::testing::TestWithParam<PyTorchCase> {};

TEST_P(Clip, UpdatesByTheClippedGradient) {
  const auto& values = GetParam().values;
  const auto device = GetParam().row.open();
  const int64_t elements = values["elements"];
  const Tensor gradients = formula_tensor(*device, {elements}, {.tensor = kOutputGradient});
  // From zero, a step of rate -1 leaves the gradient that it was given.
  const Tensor weights = Tensor::zeros(*device, {elements});
  ops::sgd_step(weights, gradients, {},
                {.learning_rate = -1, .control = {.gradient_factor = ops::clip_factor(gradients, values["most"])}});
  expect_pytorch(values["gradients"], weights, GetParam().row.tolerance);
}

TEST_P(Clip, CountsAFactorThatGradientsHaveAlready) {
  const auto& values = GetParam().values;
  const auto device = GetParam().row.open();
  const Tensor gradients = formula_tensor(*device, {values["elements"]}, {.tensor = kOutputGradient});
  const double most = values["most"];
  const float alone = ops::clip_factor(gradients, most).values()[0];
  // Gradients that are to be a quarter of what they are, held to a quarter of the norm.
  const float quarter = ops::clip_factor(gradients, most / 4, tensor_of(*device, {1}, {0.25f})).values()[0];
  EXPECT_NEAR(quarter, alone / 4, 1e-5 * alone);
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Clip, ::testing::ValuesIn(pytorch_cases("clip")), CaseName());

TEST(ClipNorm, IsTheSameForAnyNumberOfThreads) {
  std::vector<float> factors;
  for (const int threads : {1, 2, 3}) {
    const auto device = test_device(threads);
    factors.push_back(ops::clip_factor(formula_tensor(*device, {100003}, {.tensor = kX}), 1.0).values()[0]);
  }
  EXPECT_EQ(factors, std::vector<float>(3, factors[0]));
}

class ClipRanges : public ::testing::TestWithParam<DeviceRow> {};

TEST_P(ClipRanges, AreClippedByTheNormOfTheWhole) {
  const auto device = GetParam().open();
  const Tensor gradients = formula_tensor(*device, {100'000}, {.tensor = kX});
  const Tensor factor = tensor_of(*device, {1}, {0.5f});
  const Tensor sums = Tensor::zeros(*device, {3}, {.dtype = DType::f64});
  const int64_t cuts[] = {0, 16, 70'000, 100'000};
  for (int64_t i = 0; i < 3; ++i)
    ops::sum_of_squares(gradients.window(cuts[i], {cuts[i + 1] - cuts[i]}, Layout::plain),
                        sums.window(i, {1}, Layout::plain));
  for (const double most : {1.0, 1e9})
    EXPECT_EQ(ops::clip_factor_of_ranges(sums, most, factor).values(),
              ops::clip_factor(gradients, most, factor).values());
}

INSTANTIATE_TEST_SUITE_P(Devices, ClipRanges, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace
}  // namespace dptrain
