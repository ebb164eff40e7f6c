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

TEST_P(Clip, TheSquaresOfPartsAddUpToThoseOfTheWhole) {
  const auto& values = GetParam().values;
  const auto device = GetParam().row.open();
  const int64_t elements = values["elements"];
  const double most = values["most"];
  const Tensor gradients = formula_tensor(*device, {elements}, {.tensor = kOutputGradient});
  const auto squares_of = [&](const Tensor& part) {
    double squares = 0;
    const Tensor sum = ops::sum_of_squares(part);
    device->download(&squares, sum.raw(), sizeof squares);
    return squares;
  };
  const double sum =
      squares_of(gradients.samples(0, elements / 3)) + squares_of(gradients.samples(elements / 3, elements));
  const Tensor squares = Tensor::empty(*device, {1}, {.dtype = DType::f64});
  device->upload(squares.raw(), &sum, sizeof sum);
  const float whole = ops::clip_factor(gradients, most).values()[0];
  EXPECT_NEAR(ops::clip_factor_of(squares, most).values()[0], whole, 1e-7 * whole) << "the rounding of a float";
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

}  // namespace
}  // namespace dptrain
