// Steps of Adam and AdamW against PyTorch's torch.optim.

#include "ops/adam.h"

#include "ops/pytorch_cases.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

using namespace testing;

class Adam : public ::testing::TestWithParam<PyTorchCase> {
 protected:
  static ops::AdamOptions options_of(const nlohmann::json& values) {
    return {.learning_rate = 0.25,
            .beta1 = values["beta1"],
            .beta2 = values["beta2"],
            .epsilon = values["epsilon"],
            .weight_decay = values["weight_decay"],
            .decoupled = values["decoupled"]};
  }
};

TEST_P(Adam, ThreeSteps) {
  const auto& values = GetParam().values;
  const auto device = GetParam().row.open();
  const Tensor weights = formula_tensor(*device, {37}, {.tensor = kWeight});
  const ops::AdamMoments moments{.first = Tensor::zeros(*device, {37}), .second = Tensor::zeros(*device, {37})};
  ops::AdamOptions options = options_of(values);
  for (uint64_t step = 0; step < 3; ++step) {
    options.step = static_cast<int64_t>(step) + 1;
    ops::adam_step(weights, formula_tensor(*device, {37}, {.tensor = kOutputGradient + 10 * step}), moments, options);
  }
  expect_pytorch(values["weights"], weights, GetParam().row.tolerance);
}

TEST_P(Adam, ReadsItsNumbersOnTheDevice) {
  const auto& values = GetParam().values;
  const auto device = GetParam().row.open();
  const bool gpu = device->kind() == DeviceKind::cuda;
  const Tensor weights = formula_tensor(*device, {37}, {.tensor = kWeight});
  const ops::AdamMoments moments{.first = Tensor::zeros(*device, {37}), .second = Tensor::zeros(*device, {37})};
  ops::AdamOptions options = options_of(values);
  // Halved, and given in double size.
  options.control.gradient_factor = tensor_of(*device, {1}, {0.5});
  if (gpu) {
    options.learning_rate = 100;
    options.control.learning_rate = tensor_of(*device, {1}, {0.25});
    options.control.step = Tensor::zeros(*device, {1}, {.dtype = DType::i32});
    options.control.skipped = Tensor::zeros(*device, {1}, {.dtype = DType::i64});
    const int64_t skipped = 4;
    device->upload(options.control.skipped.raw(), &skipped, sizeof skipped);
  }
  for (uint64_t step = 0; step < 3; ++step) {
    const auto number = static_cast<int32_t>(step) + (gpu ? 5 : 1);
    options.step = number;
    if (gpu) device->upload(options.control.step.raw(), &number, sizeof number);
    Tensor gradient = formula_tensor(*device, {37}, {.tensor = kOutputGradient + 10 * step});
    std::vector<float> doubled = gradient.values();
    for (float& value : doubled) value *= 2;
    ops::adam_step(weights, tensor_of(*device, {37}, doubled), moments, options);
  }
  expect_pytorch(values["weights"], weights, GetParam().row.tolerance);
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Adam, ::testing::ValuesIn(pytorch_cases("adam")), CaseName());

TEST(AdamRefuses, BuffersOfUnequalLength) {
  const auto device = test_device();
  const auto zeros = [&](int64_t count) { return Tensor::zeros(*device, {count}); };
  expect_error(ExitCode::bug, {"adam: second moment of [4], expected [5]"},
               [&] { ops::adam_step(zeros(5), zeros(5), {.first = zeros(5), .second = zeros(4)}, {.step = 1}); });
}

}  // namespace
}  // namespace dptrain
