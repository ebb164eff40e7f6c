// Layer normalization against double precision.

#include "ops/layer_norm.h"

#include "device/operator_log.h"
#include "ops/add.h"
#include "support/device_rows.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace layer_norm_test {

using namespace testing;

constexpr double kEpsilon = 1e-5;

/// The formulas of layer_norm.h, and their gradients.
struct Reference {
  int64_t width;
  std::vector<double> sum, y, mean, inverse, dx, dgamma, dbeta;

  Reference(int64_t row_width, const std::vector<float>& x, const std::vector<float>& residual,
            const std::vector<float>& gamma, const std::vector<float>& beta, const std::vector<float>& incoming)
      : width(row_width), sum(x.begin(), x.end()), y(x.size()), dx(x.size()), dgamma(gamma.size()), dbeta(beta.size()) {
    // The sum is normalized as it is stored, in float.
    for (size_t i = 0; i < residual.size(); ++i) sum[i] = x[i] + residual[i];
    const auto w = static_cast<size_t>(width);
    for (size_t row = 0; row < x.size(); row += w) {
      double total = 0, squares = 0, of_g = 0, of_product = 0;
      for (size_t i = 0; i < w; ++i) total += sum[row + i];
      mean.push_back(total / static_cast<double>(w));
      for (size_t i = 0; i < w; ++i) squares += (sum[row + i] - mean.back()) * (sum[row + i] - mean.back());
      inverse.push_back(1 / std::sqrt(squares / static_cast<double>(w) + kEpsilon));
      const auto normalized = [&](size_t i) { return (sum[row + i] - mean.back()) * inverse.back(); };
      for (size_t i = 0; i < w; ++i) {
        y[row + i] = normalized(i) * gamma[i] + beta[i];
        dgamma[i] += incoming[row + i] * normalized(i);
        dbeta[i] += incoming[row + i];
        of_g += double{incoming[row + i]} * gamma[i] / static_cast<double>(w);
        of_product += incoming[row + i] * gamma[i] * normalized(i) / static_cast<double>(w);
      }
      for (size_t i = 0; i < w; ++i)
        dx[row + i] = inverse.back() * (double{incoming[row + i]} * gamma[i] - of_g - normalized(i) * of_product);
    }
  }
};

class LayerNorm : public ::testing::TestWithParam<DeviceRow> {
 protected:
  void expect_near(const Tensor& got, const std::vector<double>& expected) const {
    const std::vector<float> values = values_of(got);
    ASSERT_EQ(values.size(), expected.size());
    double norm = 0;
    for (const double value : expected) norm += value * value;
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], expected[i], GetParam().tolerance * std::sqrt(norm) + 1e-6) << "element " << i;
  }
  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(LayerNorm, FollowsTheFormulas) {
  // Widths of whole vectors and not, rows of several blocks, and a mean with which squares would cancel.
  for (const Shape& shape : {Shape{3, 33, 768}, Shape{70, 40}, Shape{2, 37}, Shape{1, 17}, Shape{5, 3}, Shape{9, 256},
                             Shape{5, 512}, Shape{300, 1024}, Shape{3, 1028}}) {
    for (const bool with_residual : {false, true}) {
      SCOPED_TRACE(shape.text() + (with_residual ? " with a residual" : ""));
      const int64_t width = shape[-1];
      const std::vector<float> x = Formula{.tensor = 0, .centre = 3}.values(shape.elements());
      const std::vector<float> residual = Formula{.tensor = 1}.values(with_residual ? shape.elements() : 0);
      const std::vector<float> gamma = Formula{.tensor = 2, .centre = 1}.values(width);
      const std::vector<float> beta = Formula{.tensor = 3}.values(width);
      const std::vector<float> incoming = Formula{.tensor = 4}.values(shape.elements());
      const Reference reference(width, x, residual, gamma, beta, incoming);

      const ops::LayerNormInputs in{.x = tensor_of(*device_, shape, x),
                                    .residual = with_residual ? tensor_of(*device_, shape, residual) : Tensor(),
                                    .gamma = tensor_of(*device_, {width}, gamma),
                                    .beta = tensor_of(*device_, {width}, beta)};
      const auto forward = ops::layer_norm_forward(in, kEpsilon);
      expect_near(forward.y, reference.y);
      expect_near(forward.mean, reference.mean);
      expect_near(forward.inverse_deviation, reference.inverse);
      expect_near(forward.sum, reference.sum);

      for (const bool accumulate : {false, true}) {
        const std::vector<float> before = Formula{.tensor = 5}.values(width);
        const ops::LayerNormParameterGradients gradients{.gamma = tensor_of(*device_, {width}, before),
                                                         .beta = tensor_of(*device_, {width}, before),
                                                         .accumulate_gamma = accumulate,
                                                         .accumulate_beta = accumulate};
        const auto of = ops::layer_norm_backward(forward, in.gamma, tensor_of(*device_, shape, incoming), gradients);
        expect_near(of.x, reference.dx);
        expect_near(of.residual, reference.dx);
        std::vector<double> dgamma = reference.dgamma, dbeta = reference.dbeta;
        for (size_t i = 0; accumulate && i < before.size(); ++i) dgamma[i] += before[i], dbeta[i] += before[i];
        expect_near(gradients.gamma, dgamma);
        expect_near(gradients.beta, dbeta);
      }
    }
  }
}

// Whole samples, and rows that begin within a block of drawn words.
TEST_P(LayerNorm, DropsAsDropoutAloneDoes) {
  for (const int64_t width : {64, 37, 256, 1028}) {
    for (const bool rows : {false, true}) {
      SCOPED_TRACE(std::to_string(width) + (rows ? ", rows" : ""));
      constexpr float kProbability = 0.25f;
      ops::DropoutKey key{
          .seed = 3, .layer = 2, .epoch = epoch_on(*device_, 1), .sample_ids = sample_ids_on(*device_, 4, 7)};
      if (rows) {
        key.rows = labels_on(*device_, {0, 34, 17, 59});
        key.sequence = 20;
      }
      const Shape shape = rows ? Shape{4, width} : Shape{3, 20, width};
      const auto formula = [&](const Shape& of, uint64_t tensor) {
        return formula_tensor(*device_, of, {.tensor = tensor});
      };
      const Tensor x = formula(shape, 0), residual = formula(shape, 1), gamma = formula({width}, 2),
                   beta = formula({width}, 3), incoming = formula(shape, 4);
      const auto backward = [&](const ops::LayerNormForward& forward) {
        const Tensor none = Tensor::zeros(*device_, {width});
        return ops::layer_norm_backward(forward, gamma, incoming, {.gamma = none, .beta = none});
      };
      const ops::DropoutResult dropped = ops::dropout_forward(x, kProbability, key);
      const auto apart =
          ops::layer_norm_forward({.x = dropped.y, .residual = residual, .gamma = gamma, .beta = beta}, 1e-5f);
      const auto of_apart = backward(apart);
      const auto at_once = ops::layer_norm_forward(
          {.x = x, .residual = residual, .gamma = gamma, .beta = beta, .dropout = kProbability, .key = key}, 1e-5f);
      const auto of_at_once = backward(at_once);
      EXPECT_EQ(values_of(at_once.y), values_of(apart.y));
      EXPECT_EQ(values_of(of_at_once.residual), values_of(of_apart.residual));
      EXPECT_EQ(values_of(of_at_once.x),
                values_of(ops::dropout_backward(dropped.mask, of_apart.residual, kProbability)));
    }
  }
}

TEST_P(LayerNorm, ARowOfEqualNumbersIsItsBeta) {
  const auto forward = ops::layer_norm_forward({.x = tensor_of(*device_, {1, 3}, {7, 7, 7}),
                                                .gamma = tensor_of(*device_, {3}, {2, 2, 2}),
                                                .beta = tensor_of(*device_, {3}, {1, 2, 3})},
                                               1e-12f);
  EXPECT_EQ(values_of(forward.y), (std::vector<float>{1, 2, 3}));
}

TEST_P(LayerNorm, OfNoRowsHasNoGradient) {
  const Tensor gamma = tensor_of(*device_, {2}, {5, 5}), beta = tensor_of(*device_, {2}, {6, 6});
  const Tensor x = Tensor::empty(*device_, {0, 4, 2});
  const auto forward = ops::layer_norm_forward({.x = x, .residual = x, .gamma = gamma, .beta = beta}, 1e-5f);
  EXPECT_EQ(forward.y.shape(), x.shape());
  const auto of =
      ops::layer_norm_backward(forward, gamma, forward.y, {.gamma = gamma, .beta = beta, .accumulate_beta = true});
  EXPECT_EQ(of.x.shape(), x.shape());
  EXPECT_EQ(values_of(gamma), (std::vector<float>{0, 0}));
  EXPECT_EQ(values_of(beta), (std::vector<float>{6, 6}));
}

TEST_P(LayerNorm, RefusesOtherShapes) {
  const Tensor x = Tensor::zeros(*device_, {4, 6}), six = Tensor::zeros(*device_, {6}),
               four = Tensor::zeros(*device_, {4});
  expect_error(ExitCode::bug, {"layer_norm", "parameter", "[4]", "[6]"},
               [&] { ops::layer_norm_forward({.x = x, .gamma = four, .beta = six}, 1e-5f); });
  expect_error(ExitCode::bug, {"layer_norm", "residual", "[6]", "[4, 6]"},
               [&] { ops::layer_norm_forward({.x = x, .residual = six, .gamma = six, .beta = six}, 1e-5f); });
  expect_error(ExitCode::bug, {"layer_norm", "dropout", "without a residual"},
               [&] { ops::layer_norm_forward({.x = x, .gamma = six, .beta = six, .dropout = 0.5f}, 1e-5f); });
  const auto forward = ops::layer_norm_forward({.x = x, .gamma = six, .beta = six}, 1e-5f);
  expect_error(ExitCode::bug, {"layer_norm backward", "output gradient"},
               [&] { ops::layer_norm_backward(forward, six, six, {.gamma = six, .beta = six}); });
}

/// Two readers of the output return gradients.
TEST_P(LayerNorm, BackwardOfTwoGradientsIsThatOfTheirSum) {
  for (const int64_t width : {3, 64, 768, 1028}) {
    SCOPED_TRACE(width);
    const Shape shape = {7, 11, width};
    const auto formula = [&](const Shape& of, uint64_t tensor) {
      return formula_tensor(*device_, of, {.tensor = tensor});
    };
    const Tensor gamma = formula({width}, 1);
    const auto forward = ops::layer_norm_forward({.x = formula(shape, 0), .gamma = gamma, .beta = gamma}, 1e-5f);
    std::vector<std::vector<float>> results;
    for (const bool two : {true, false}) {
      const ops::LayerNormParameterGradients gradients{.gamma = Tensor::empty(*device_, {width}),
                                                       .beta = Tensor::empty(*device_, {width})};
      const Tensor first = formula(shape, 2), second = formula(shape, 3);
      const auto of = two ? ops::layer_norm_backward(forward, gamma, {first, second}, gradients)
                          : ops::layer_norm_backward(forward, gamma, ops::add(first, second), gradients);
      for (const Tensor& result : {of.x, gradients.gamma, gradients.beta}) results.push_back(values_of(result));
    }
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(results[i], results[i + 3]) << i;
  }
}

/// The plan of a GPU counts this single pass.
TEST(PlannedLayerNorm, DropsAndAddsInOnePass) {
  const auto device = open_device({DeviceKind::cuda, 0}, {.counts_only = true});
  const Tensor x = Tensor::zeros(*device, {64, 64}), residual = Tensor::zeros(*device, {64, 64}),
               gamma = Tensor::zeros(*device, {64}), beta = Tensor::zeros(*device, {64});
  const ops::DropoutKey key{.epoch = epoch_on(*device, 0), .sample_ids = sample_ids_on(*device, 0, 64)};
  device->operator_log()->clear();
  const auto forward = ops::layer_norm_forward(
      {.x = x, .residual = residual, .gamma = gamma, .beta = beta, .dropout = 0.5f, .key = key}, 1e-5f);
  const auto& costs = device->operator_log()->costs();
  ASSERT_EQ(costs.size(), 1u);
  EXPECT_EQ(costs[0].name, "layer_norm");
  // It reads two tensors and the parameters, and writes the sum, the output and a mask of bytes.
  EXPECT_NEAR(static_cast<double>(costs[0].bytes), 4 * x.bytes() + x.elements(), 2048);
}

INSTANTIATE_TEST_SUITE_P(Devices, LayerNorm, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace layer_norm_test
}  // namespace dptrain
