// Batch normalization against central differences. The function isn't linear, so steps are small and bounds wider.
// Betas and residuals of +10 and -10 keep every output of a ReLU on its side.

#include <utility>

#include "autograd/batch_norm.h"
#include "autograd/elementwise.h"
#include "autograd/gradient_check.h"

namespace dptrain {
namespace {

using namespace testing;

struct BatchNormCase {
  const char* name;
  Shape x;
  bool relu;
  int64_t residual;  ///< channels of the residual; 0: none
  bool training = true;

  Shape residual_shape() const { return x.rank() == 2 ? Shape{x[0], residual} : Shape{x[0], residual, x[2], x[3]}; }
  Layout residual_layout() const { return x.rank() == 2 ? Layout::plain : Layout::nhwc; }
};

const std::vector<BatchNormCase> kBatchNormCases = {{"bare", {3, 5, 3, 2}, false, 0},
                                                    {"relu", {2, 5, 3, 3}, true, 0},
                                                    {"residual", {2, 5, 3, 2}, false, 5},
                                                    {"relu_residual", {2, 5, 2, 3}, true, 5},
                                                    {"narrow_residual", {2, 5, 3, 2}, false, 3},
                                                    {"relu_narrow_residual", {2, 20, 2, 2}, true, 16},
                                                    {"one_sample", {1, 20, 3, 3}, true, 0},
                                                    {"one_position", {6, 20, 1, 1}, false, 0},
                                                    {"whole_blocks", {2, 16, 3, 2}, true, 16},
                                                    {"features", {6, 20}, false, 0},
                                                    {"features_relu", {5, 3}, true, 0},
                                                    {"features_relu_residual", {6, 16}, true, 16},
                                                    {"wide_features", {4, 37}, true, 37},
                                                    {"running", {3, 5, 3, 2}, false, 0, false},
                                                    {"running_features", {5, 20}, false, 20, false},
                                                    {"running_relu_residual", {2, 20, 2, 3}, true, 20, false}};

class BatchNormGradients : public ::testing::TestWithParam<std::tuple<DeviceRow, BatchNormCase>> {};

TEST_P(BatchNormGradients, AreDifferences) {
  const auto& [row, c] = GetParam();
  const auto device = row.open(1);
  const int64_t channels = c.x[1];
  std::vector<float> beta(static_cast<size_t>(channels)),
      residual = Formula{.tensor = 3}.values(c.residual_shape().elements());
  for (size_t i = 0; i < beta.size(); ++i) beta[i] = std::cmp_less(i, c.residual) ? 0.5f : (i % 2 == 0 ? 10.f : -10.f);
  for (size_t i = 0; i < residual.size(); ++i) residual[i] += i % 3 == 0 ? 10.f : -10.f;
  for (const Layout layout : layouts_of(row, c.x)) {
    SCOPED_TRACE(layout_name(layout));
    std::vector<Leaf> leaves = {
        {.shape = c.x, .values = Formula{.scale = 2}.values(c.x.elements()), .layout = layout},
        {.shape = {channels}, .values = Formula{.tensor = 1, .centre = 1.5}.values(channels), .parameter = true},
        {.shape = {channels}, .values = beta, .parameter = true}};
    if (c.residual > 0)
      leaves.push_back({.shape = c.residual_shape(), .values = residual, .layout = c.residual_layout()});
    const Tensor running_mean = Tensor::from(*device, {channels}, Formula{.tensor = 4}.values(channels));
    const Tensor running_variance =
        Tensor::from(*device, {channels}, Formula{.tensor = 5, .centre = 2}.values(channels));
    check_gradients(*device, leaves,
                    [&, relu = c.relu, training = c.training](Tape&, const std::vector<Variable>& v) {
                      return autograd::batch_norm(v[0],
                                                  {.gamma = v[1],
                                                   .beta = v[2],
                                                   .running_mean = running_mean,
                                                   .running_variance = running_variance,
                                                   .residual = v.size() > 3 ? v[3] : Variable(),
                                                   .training = training},
                                                  {.relu = relu});
                    },
                    {.step = 0.01, .tolerance = 3e-3});
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, BatchNormGradients,
                         ::testing::Combine(::testing::ValuesIn(device_rows()), ::testing::ValuesIn(kBatchNormCases)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_" + std::get<1>(test.param).name;
                         });

/// A block's input is read by its layers and by its shortcut; the backward pass adds up both gradients.
TEST_P(BatchNormGradients, OfWhatTwoReadAreDifferences) {
  const auto& [row, c] = GetParam();
  const auto device = row.open(1);
  const int64_t channels = c.x[1];
  const Tensor running_mean = Tensor::from(*device, {channels}, Formula{.tensor = 4}.values(channels));
  const Tensor running_variance = Tensor::from(*device, {channels}, Formula{.tensor = 5, .centre = 2}.values(channels));
  std::vector<Leaf> leaves = {
      {.shape = c.x, .values = Formula{.scale = 2}.values(c.x.elements()), .layout = layouts_of(row, c.x).front()},
      {.shape = {channels}, .values = Formula{.tensor = 1, .centre = 1.5}.values(channels), .parameter = true},
      {.shape = {channels}, .values = Formula{.tensor = 2}.values(channels), .parameter = true}};
  if (c.residual > 0)
    leaves.push_back(
        {.shape = c.residual_shape(), .values = Formula{.tensor = 3}.values(c.residual_shape().elements())});
  check_gradients(*device, leaves,
                  [&, training = c.training](Tape&, const std::vector<Variable>& v) {
                    const Variable y = autograd::batch_norm(v[0],
                                                            {.gamma = v[1],
                                                             .beta = v[2],
                                                             .running_mean = running_mean,
                                                             .running_variance = running_variance,
                                                             .residual = v.size() > 3 ? v[3] : Variable(),
                                                             .training = training},
                                                            {});
                    return autograd::add(autograd::gelu(y), autograd::tanh(y));
                  },
                  {.step = 0.01, .tolerance = 3e-3});
}

TEST(BatchNormParameters, GatherGradientsOverTapes) {
  const auto device = device_rows().front().open();
  Parameter gamma = test_parameter(*device, {3}, {1, 2, 3}), beta = test_parameter(*device, {3}, {1, 1, 1});
  std::vector<float> once_gamma, once_beta;
  for (int pass = 1; pass <= 2; ++pass) {
    Tape tape(Tape::Mode::record);
    const Variable y = autograd::batch_norm(tape.input(formula_tensor(*device, {2, 3, 2, 2}, {})),
                                            {.gamma = tape.use(gamma),
                                             .beta = tape.use(beta),
                                             .running_mean = Tensor::zeros(*device, {3}),
                                             .running_variance = Tensor::zeros(*device, {3}),
                                             .residual = {},
                                             .training = true},
                                            {});
    tape.backward(y, formula_tensor(*device, {2, 3, 2, 2}, {.tensor = 1}));
    std::vector<float> of_gamma = values_of(gamma.gradient()), of_beta = values_of(beta.gradient());
    if (pass == 1) once_gamma = of_gamma, once_beta = of_beta;
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_EQ(of_gamma[c], static_cast<float>(pass) * once_gamma[c]);
      EXPECT_EQ(of_beta[c], static_cast<float>(pass) * once_beta[c]);
    }
  }
}

}  // namespace
}  // namespace dptrain
