// Steps of Adam and AdamW against PyTorch's torch.optim.

#include "ops/adam.h"

#include "ops/pytorch_cases.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace adam_test {

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
  // The gradients are given in double size, and the factor halves them.
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

class AdamOfParts : public ::testing::TestWithParam<DeviceRow> {};

/// Ranks that each update their own range rely on this (parallel/owned_range.h): whatever vectors fit the parts, and
/// whether or not a 16-bit copy is written.
TEST_P(AdamOfParts, EndsInTheBitsOfTheWhole) {
  const auto device = GetParam().open();
  const int64_t count = 83;
  const std::vector<int64_t> whole = {0, count}, parts = {0, 5, 33, 64, count};
  const auto weights_by = [&](const std::vector<int64_t>& bounds, bool copies, bool decoupled) {
    const auto all = [&](uint64_t tensor) { return formula_tensor(*device, {count}, {.tensor = tensor}); };
    const Tensor weights = all(kWeight);
    const ops::AdamMoments moments{.first = Tensor::zeros(*device, {count}), .second = Tensor::zeros(*device, {count})};
    const Tensor copy = Tensor::zeros(*device, {count}, {.dtype = DType::bf16});
    for (uint64_t step = 0; step < 4; ++step) {
      const Tensor gradients = all(kOutputGradient + 10 * step);
      for (size_t part = 0; part + 1 < bounds.size(); ++part) {
        const auto of = [&](const Tensor& tensor) {
          return tensor.window(bounds[part], {bounds[part + 1] - bounds[part]}, Layout::plain);
        };
        ops::adam_step(of(weights), of(gradients), {.first = of(moments.first), .second = of(moments.second)},
                       {.learning_rate = 0.01,
                        .step = static_cast<int64_t>(step) + 1,
                        .weight_decay = 0.1,
                        .decoupled = decoupled,
                        .copy = copies ? of(copy) : Tensor(),
                        .control = {.gradient_factor = tensor_of(*device, {1}, {0.3f})}});
      }
    }
    return weights.values();
  };
  for (const bool decoupled : {false, true}) {
    const std::vector<float> expected = weights_by(whole, false, decoupled);
    EXPECT_EQ(weights_by(parts, false, decoupled), expected);
    EXPECT_EQ(weights_by(whole, true, decoupled), expected);
    EXPECT_EQ(weights_by(parts, true, decoupled), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, AdamOfParts, ::testing::ValuesIn(device_rows()), RowName());

TEST(AdamRefuses, BuffersOfUnequalLength) {
  const auto device = test_device();
  const auto zeros = [&](int64_t count) { return Tensor::zeros(*device, {count}); };
  expect_error(ExitCode::bug, {"adam: second moment of [4], expected [5]"},
               [&] { ops::adam_step(zeros(5), zeros(5), {.first = zeros(5), .second = zeros(4)}, {.step = 1}); });
}

}  // namespace adam_test
}  // namespace dptrain
