// Batch normalization with the statistics of several devices' samples against central differences. The test plays
// another device, whose samples are fixed and whose outputs don't count.

#include <deque>

#include "autograd/batch_norm.h"
#include "autograd/gradient_check.h"
#include "ops/batch_norm_parts.h"

namespace dptrain {
namespace {

using namespace testing;

/// Adds the other device's values, call by call: its sums, its squares, and nothing to gradients.
class AnotherDevice final : public autograd::SumOverDevices {
 public:
  explicit AnotherDevice(Tensor x) : x_(std::move(x)), part_(ops::batch_norm_part(x_)) {}

  void sum(const Tensor& values) override {
    ++calls_;
    if (calls_ == 1) {
      add(values, part_.sums);
      part_.sums = values;
    } else if (calls_ == 2) {
      add(values, ops::batch_norm_part_squares(x_, part_));
    }
  }
  int calls() const { return calls_; }

 private:
  static void add(const Tensor& to, const Tensor& from) {
    std::vector<float> sum = to.values();
    const std::vector<float> more = from.values();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
    to.device().upload(to.raw(), sum.data(), to.bytes());
  }

  Tensor x_;
  ops::BatchNormPart part_;
  int calls_ = 0;
};

struct SharedCase {
  const char* name;
  int64_t samples, others;
  bool relu, residual;
  bool features = false;
};

const std::vector<SharedCase> kSharedCases = {{"bare", 3, 2, false, false},
                                              {"relu", 2, 3, true, false},
                                              {"residual", 2, 1, false, true},
                                              {"relu_residual", 2, 4, true, true},
                                              {"alone", 4, 0, true, false},
                                              {"features", 5, 3, true, false, true},
                                              {"features_residual", 4, 3, false, true, true}};

class BatchNormOverDevices : public ::testing::TestWithParam<std::tuple<DeviceRow, SharedCase>> {};

TEST_P(BatchNormOverDevices, GradientsAreDifferences) {
  const auto& [row, c] = GetParam();
  const auto device = row.open(1);
  const int64_t channels = 5;
  const Shape positions = c.features ? Shape{1, 1} : Shape{3, 2};
  const Shape x = c.features ? Shape{c.samples, channels} : Shape{c.samples, channels, 3, 2};
  // As on one device, betas and residuals keep every output of a ReLU on its side.
  std::vector<float> beta(static_cast<size_t>(channels)), residual = Formula{.tensor = 3}.values(x.elements());
  for (size_t i = 0; i < beta.size(); ++i) beta[i] = c.residual ? 0.5f : (i % 2 == 0 ? 10.f : -10.f);
  for (size_t i = 0; i < residual.size(); ++i) residual[i] += i % 3 == 0 ? 10.f : -10.f;
  for (const Layout layout : layouts_of(row, x)) {
    SCOPED_TRACE(layout_name(layout));
    std::vector<Leaf> leaves = {
        {.shape = x, .values = Formula{.scale = 2}.values(x.elements()), .layout = layout},
        {.shape = {channels}, .values = Formula{.tensor = 1, .centre = 1.5}.values(channels), .parameter = true},
        {.shape = {channels}, .values = beta, .parameter = true}};
    if (c.residual) leaves.push_back({.shape = x, .values = residual, .layout = layout});
    const Tensor others = formula_tensor(*device, {c.others, channels, positions[0], positions[1]},
                                         {.tensor = 8, .centre = 1, .scale = 3}, layout);
    std::deque<AnotherDevice> devices;  // each tape's backward pass uses its own
    check_gradients(*device, leaves,
                    [&, relu = c.relu](Tape&, const std::vector<Variable>& v) {
                      return autograd::batch_norm(v[0],
                                                  {.gamma = v[1],
                                                   .beta = v[2],
                                                   .running_mean = Tensor::zeros(*device, {channels}),
                                                   .running_variance = Tensor::zeros(*device, {channels}),
                                                   .residual = v.size() > 3 ? v[3] : Variable(),
                                                   .training = true,
                                                   .devices = &devices.emplace_back(others)},
                                                  {.relu = relu});
                    },
                    {.step = 0.01, .tolerance = 3e-3});
    EXPECT_EQ(devices.front().calls(), 3) << "two sums forward, one back";
    EXPECT_EQ(devices.back().calls(), 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, BatchNormOverDevices,
                         ::testing::Combine(::testing::ValuesIn(device_rows()), ::testing::ValuesIn(kSharedCases)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_" + std::get<1>(test.param).name;
                         });

TEST(BatchNormEvaluation, AsksNoOtherDevice) {
  const auto device = device_rows().front().open();
  Parameter gamma = test_parameter(*device, {3}, {1, 2, 3}), beta = test_parameter(*device, {3}, {1, 1, 1});
  AnotherDevice other(Tensor::zeros(*device, {1, 3, 2, 2}));
  Tape tape(Tape::Mode::forget);
  autograd::batch_norm(tape.input(formula_tensor(*device, {2, 3, 2, 2}, {})),
                       {.gamma = tape.use(gamma),
                        .beta = tape.use(beta),
                        .running_mean = Tensor::zeros(*device, {3}),
                        .running_variance = Tensor::zeros(*device, {3}),
                        .residual = {},
                        .devices = &other},
                       {});
  EXPECT_EQ(other.calls(), 0);
}

}  // namespace
}  // namespace dptrain
