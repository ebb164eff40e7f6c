// Activations against double precision, over the whole range of a float.

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/activation.h"
#include "ops/gelu.h"
#include "ops/reorder.h"
#include "support/device_rows.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"
#include "support/not_a_number.h"
#include "support/test_device.h"

namespace dptrain {
namespace activations_test {

using namespace testing;

double normal_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double gelu(double x) { return x * normal_below(x); }
double gelu_slope(double x) { return normal_below(x) + x * std::exp(-x * x / 2) * std::sqrt(0.5 / std::acos(-1.0)); }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu_slope(double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }

/// From -12, where GELU is -2e-32, to 12, and values near zero in steps of their own magnitude.
std::vector<float> dense() {
  std::vector<float> values = {0, 13, 100, 1e30f};
  for (int i = -60'000; i <= 60'000; ++i) values.push_back(static_cast<float>(i) * 2e-4f);
  for (float small = 1e-30f; small < 1; small *= 1.7f) {
    values.push_back(small);
    values.push_back(-small);
  }
  return values;
}

class Activations : public ::testing::TestWithParam<DeviceRow> {
 protected:
  Tensor on_device(const std::vector<float>& values) const {
    return Tensor::from(*device_, {static_cast<int64_t>(values.size())}, values);
  }
  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(Activations, GeluKeepsItsDigitsInTheTails) {
  const std::vector<float> x = dense(), y = values_of(ops::activation_forward(ops::kGelu, on_device(x)));
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = gelu(x[i]);
    // The tolerance is eight units in the last place: near x = -sqrt(2) the sum 1 + erf cancels to a sixth. On the GPU,
    // rounding erfc's argument, a product with a rounded constant, adds up to x^2 units.
    const double of_argument = GetParam().device.kind == DeviceKind::cuda ? 0x1p-23 * x[i] * x[i] : 0;
    ASSERT_NEAR(y[i], expected, (1e-6 + of_argument) * std::abs(expected)) << "at " << x[i];
  }
}

TEST_P(Activations, GeluBackwardMultipliesByTheSlope) {
  const std::vector<float> x = dense();
  const std::vector<float> incoming = Formula{.tensor = 1}.values(static_cast<int64_t>(x.size()));
  const std::vector<float> gradient =
      values_of(ops::activation_backward(ops::kGelu, on_device(x), on_device(incoming)));
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(gradient[i], incoming[i] * gelu_slope(x[i]), 3e-7) << "at " << x[i];
}

/// Rows that one block of threads sums and rows that several do, in packs of 16 bytes and in single elements.
TEST_P(Activations, GeluBackwardAddsUpTheBias) {
  for (const Shape& shape : {Shape{3, 700, 24}, Shape{37, 5}, Shape{1, 1}, Shape{260, 300}, Shape{0, 4}}) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(shape.text() + (accumulate ? ", added" : ""));
      const int64_t width = shape[-1];
      const std::vector<float> x = Formula{.scale = 3}.values(shape.elements()),
                               incoming = Formula{.tensor = 1}.values(shape.elements()),
                               before = Formula{.tensor = 2}.values(width);
      std::vector<double> expected(static_cast<size_t>(width));
      if (accumulate) expected.assign(before.begin(), before.end());
      for (size_t i = 0; i < x.size(); ++i) expected[i % expected.size()] += incoming[i] * gelu_slope(x[i]);
      const Tensor bias = tensor_of(*device_, {width}, before);
      const Tensor gradient = ops::gelu_backward(tensor_of(*device_, shape, x), tensor_of(*device_, shape, incoming),
                                                 {.target = bias, .accumulate = accumulate});
      EXPECT_EQ(gradient.shape(), shape);
      const std::vector<float> alone = values_of(
          ops::activation_backward(ops::kGelu, tensor_of(*device_, shape, x), tensor_of(*device_, shape, incoming)));
      EXPECT_EQ(values_of(gradient), alone);
      const std::vector<float> sums = values_of(bias);
      for (size_t c = 0; c < sums.size(); ++c) ASSERT_NEAR(sums[c], expected[c], 2e-5) << "column " << c;
    }
  }
}

TEST_P(Activations, TanhIsExactToTheLastPlaces) {
  const std::vector<float> x = dense(), y = values_of(ops::activation_forward(ops::kTanh, on_device(x)));
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::tanh(double{x[i]});
    ASSERT_NEAR(y[i], expected, 2.5e-7 * std::abs(expected)) << "at " << x[i];
  }
}

TEST_P(Activations, TanhBackwardReadsTheOutput) {
  const std::vector<float> y = {0, 0.5f, -0.25f, 1, -1}, incoming = {3, 4, 16, 5, 6};
  EXPECT_EQ(values_of(ops::activation_backward(ops::kTanh, on_device(y), on_device(incoming))),
            (std::vector<float>{3, 3, 15, 0, 0}));
}

TEST_P(Activations, SigmoidAndSiluKeepTheirDigitsInTheTails) {
  std::vector<float> x = dense();
  for (const float far : {-20.f, -50.f, -80.f, -86.f, 20.f, 86.f}) x.push_back(far);
  const std::vector<float> of_sigmoid = values_of(ops::activation_forward(ops::kSigmoid, on_device(x)));
  const std::vector<float> of_silu = values_of(ops::activation_forward(ops::kSilu, on_device(x)));
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = sigmoid(x[i]);
    ASSERT_NEAR(of_sigmoid[i], expected, 4e-7 * expected) << "at " << x[i];
    ASSERT_NEAR(of_silu[i], x[i] * expected, 5e-7 * std::abs(x[i] * expected)) << "at " << x[i];
  }
}

TEST_P(Activations, SiluBackwardMultipliesByTheSlope) {
  const std::vector<float> x = dense();
  const std::vector<float> incoming = Formula{.tensor = 1}.values(static_cast<int64_t>(x.size()));
  const std::vector<float> gradient =
      values_of(ops::activation_backward(ops::kSilu, on_device(x), on_device(incoming)));
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(gradient[i], incoming[i] * silu_slope(x[i]), 3e-7) << "at " << x[i];
}

TEST_P(Activations, SigmoidBackwardReadsTheOutput) {
  const std::vector<float> y = {0, 0.5f, 0.25f, 1}, incoming = {3, 4, 16, 5};
  EXPECT_EQ(values_of(ops::activation_backward(ops::kSigmoid, on_device(y), on_device(incoming))),
            (std::vector<float>{0, 1, 3, 0}));
}

TEST_P(Activations, LeakyReluMultipliesWhatIsNegative) {
  const std::vector<float> x = {-8, -0.5f, 0, 3, 1e30f}, incoming = {4, -8, 16, 5, -6};
  const Tensor y = ops::activation_forward(ops::leaky_relu(0.25f), on_device(x));
  EXPECT_EQ(values_of(y), (std::vector<float>{-2, -0.125f, 0, 3, 1e30f}));
  EXPECT_EQ(values_of(ops::activation_backward(ops::leaky_relu(0.25f), y, on_device(incoming))),
            (std::vector<float>{1, -2, 4, 5, -6}));
  const Tensor without = ops::activation_forward(ops::leaky_relu(0), on_device(x));
  EXPECT_EQ(values_of(without), (std::vector<float>{0, 0, 0, 3, 1e30f}));
  EXPECT_EQ(values_of(ops::activation_backward(ops::leaky_relu(0), without, on_device(incoming))),
            (std::vector<float>{0, 0, 0, 5, -6}));
}

TEST_P(Activations, PassNotANumberOn) {
  for (const ops::Activation& function :
       {ops::kGelu, ops::kTanh, ops::kRelu, ops::kSigmoid, ops::kSilu, ops::leaky_relu(0.1f)})
    for (const float y : values_of(ops::activation_forward(function, on_device({kNaNs.begin(), kNaNs.end()}))))
      EXPECT_TRUE(std::isnan(y)) << static_cast<int>(function.kind) << ": " << y;
}

TEST_P(Activations, OfInfinityAreTheirLimits) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(values_of(ops::activation_forward(ops::kGelu, on_device({infinity}))), (std::vector<float>{infinity}));
  EXPECT_EQ(values_of(ops::activation_forward(ops::kTanh, on_device({infinity, -infinity}))),
            (std::vector<float>{1, -1}));
  EXPECT_EQ(values_of(ops::activation_forward(ops::kSigmoid, on_device({infinity, -infinity, -200}))),
            (std::vector<float>{1, 0, 0}));
  EXPECT_EQ(values_of(ops::activation_forward(ops::kSilu, on_device({infinity, -200}))),
            (std::vector<float>{infinity, 0}));
  EXPECT_EQ(values_of(ops::activation_forward(ops::leaky_relu(0.5f), on_device({infinity, -infinity}))),
            (std::vector<float>{infinity, -infinity}));
}

TEST_P(Activations, KeepTheLayoutAndItsZeroPadding) {
  const Shape shape = {2, 20, 3, 5};
  const std::vector<float> values = Formula{.scale = 3}.values(shape.elements());
  const std::vector<float> incoming = Formula{.tensor = 1}.values(shape.elements());
  const Tensor plain = tensor_of(*device_, shape, values), plain_incoming = tensor_of(*device_, shape, incoming);
  for (const Layout layout : GetParam().image_layouts) {
    SCOPED_TRACE(layout_name(layout));
    const Tensor x = tensor_of(*device_, shape, values, layout);
    for (const ops::Activation& function :
         {ops::kRelu, ops::kGelu, ops::kTanh, ops::kSigmoid, ops::kSilu, ops::leaky_relu(0.1f)}) {
      SCOPED_TRACE(static_cast<int>(function.kind));
      for (const auto& [got, expected] :
           {std::pair(ops::activation_forward(function, x), ops::activation_forward(function, plain)),
            std::pair(ops::activation_backward(function, x, plain_incoming),
                      ops::activation_backward(function, plain, plain_incoming))}) {
        EXPECT_EQ(got.layout(), layout);
        expect_zero_padding(got);
        EXPECT_EQ(values_of(got), values_of(expected));
      }
    }
  }
}

TEST_P(Activations, RefuseAGradientOfAnotherShape) {
  const Tensor x = Tensor::zeros(*device_, {3}), other = Tensor::zeros(*device_, {4});
  expect_error(ExitCode::bug, {"gelu backward", "[3]", "[4]"}, [&] { ops::activation_backward(ops::kGelu, x, other); });
  expect_error(ExitCode::bug, {"gelu backward", "bias gradient", "[4]", "[3]"},
               [&] { ops::gelu_backward(x, x, {.target = other}); });
  expect_error(ExitCode::bug, {"tanh backward", "[3]", "[4]"}, [&] { ops::activation_backward(ops::kTanh, x, other); });
}

INSTANTIATE_TEST_SUITE_P(Devices, Activations, ::testing::ValuesIn(device_rows()), RowName());

/// The storage has whole blocks, or lanes without a channel. GPUs have no blocked layouts.
TEST(ActivationsInBf16, KeepTheZeroPadding) {
  const auto device = test_device();
  for (const int64_t channels : {16, 20, 3}) {
    const Tensor x = ops::converted(formula_tensor(*device, {2, channels, 3, 5}, {.scale = 3}),
                                    {.dtype = DType::bf16, .layout = Layout::nchw16c});
    const Tensor y = ops::activation_forward(ops::kSigmoid, x);
    const Bfloat16* values = y.data<Bfloat16>();
    const auto zeros = std::count_if(values, values + y.storage_elements(), [](Bfloat16 v) { return v.bits == 0; });
    EXPECT_EQ(zeros, y.storage_elements() - y.elements());
  }
}

}  // namespace activations_test
}  // namespace dptrain
