// SGD steps against PyTorch's torch.optim.SGD.

#include "ops/sgd.h"

#include "ops/pytorch_cases.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace sgd_test {

using namespace testing;

class Sgd : public ::testing::TestWithParam<PyTorchCase> {};

TEST_P(Sgd, ThreeSteps) {
  const auto& values = GetParam().values;
  const auto device = GetParam().row.open();
  const Tensor weights = formula_tensor(*device, {37}, {.tensor = kWeight});
  const Tensor velocity = values["momentum"] != 0 ? Tensor::zeros(*device, {37}) : Tensor();
  for (uint64_t step = 0; step < 3; ++step)
    ops::sgd_step(weights, formula_tensor(*device, {37}, {.tensor = kOutputGradient + 10 * step}), velocity,
                  {.learning_rate = 0.25,
                   .momentum = values["momentum"],
                   .weight_decay = values["weight_decay"],
                   .nesterov = values["nesterov"]});
  expect_pytorch(values["weights"], weights, GetParam().row.tolerance);
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Sgd, ::testing::ValuesIn(pytorch_cases("sgd")), CaseName());

TEST(SgdRefuses, BuffersOfUnequalLength) {
  const auto device = test_device();
  const auto zeros = [&](int64_t count) { return Tensor::zeros(*device, {count}); };
  expect_error(ExitCode::bug, {"sgd: gradients of [4], expected [5]"},
               [&] { ops::sgd_step(zeros(5), zeros(4), {}, {}); });
  expect_error(ExitCode::bug, {"sgd: velocity of [6], expected [5]"},
               [&] { ops::sgd_step(zeros(5), zeros(5), zeros(6), {}); });
}

}  // namespace sgd_test
}  // namespace dptrain
