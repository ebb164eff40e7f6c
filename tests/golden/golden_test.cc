// Three optimizer steps of each model against PyTorch's in double precision: loss, logits, every gradient, every weight
// and the running statistics. The values come from golden.py in this folder.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "autograd/cross_entropy.h"
#include "golden/golden_trace.h"
#include "models/model_registry.h"
#include "nn/named_values.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"
#include "support/formula_values.h"
#include "support/source_tree.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

struct GoldenCase {
  const char* file;
  ops::ConvolutionAlgorithm convolution;
  testing::DeviceRow device = testing::device_rows()[0];
};

/// ResNet-18's traces of batch 8 have inputs of ReLUs in the stem and layer1 that lie nearer to zero (7e-8 and 1.2e-7
/// at the first step) than float32 resolves there (rounding of 3e-7 to 6e-7, PyTorch's as ours). On which side they
/// fall is chance: the direct algorithm puts element 284,685 of layer1.0.bn1 at -1.2e-7 where double precision has
/// +1.2e-7. One that falls on the other side moves the gradients before it by up to 4e-3 of their norm, and all steps
/// after it; PyTorch's own float32 is off by 6e-4 in the weights and by 2e-5 in the third loss for the same reason.
/// What no such value reaches keeps the strict bounds: the first forward pass, and the first gradients behind the last
/// of them.
constexpr Bounds kPastAmbiguousReLU = {.loss = 1e-3, .tensor = 1e-2};

bool before_ambiguous_relu(const std::string& parameter) {
  for (const char* prefix : {"conv1.", "bn1.", "layer1.", "layer2.0.conv1.", "layer2.0.bn1.", "layer2.0.downsample."})
    if (parameter.starts_with(prefix)) return true;
  return false;
}

std::ostream& operator<<(std::ostream& out, const GoldenCase& c) {
  if (c.device.device.kind == DeviceKind::cuda) return out << c.file << "_cuda";
  return out << c.file << (c.convolution == ops::ConvolutionAlgorithm::direct ? "_direct" : "_auto");
}

class Golden : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(Golden, ThreeOptimizerSteps) {
  const json golden = read_golden(GetParam().file);
  const auto device = GetParam().device.open();
  const int64_t batch = golden["batch"];
  const uint64_t seed = golden["seed"];
  const bool ambiguous = golden["model"] == "resnet18" && !std::string(GetParam().file).ends_with("margin");
  const auto model =
      models::find_model(golden["model"])
          .build({.device = *device, .convolution = GetParam().convolution}, {.image = {1, 28, 28}, .classes = 10});
  model->place(*device, {});
  ASSERT_EQ(model->parameter_elements(), golden["parameters"].get<int64_t>());
  testing::fill_by_formula(*model, seed);
  const GoldenOptimizer golden_optimizer = optimizer_of(golden["optimizer"], *model);

  for (size_t step = 0; step < golden["trace"].size(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const json& expected = golden["trace"][step];
    const auto labels = testing::labels_on(*device, testing::formula_labels(seed + step, batch, 10));
    Tape tape(Tape::Mode::record);
    const Variable logits = model->forward(
        tape.input(Tensor::from(*device, {batch, 1, 28, 28}, testing::formula_images(seed + step, batch * 784))),
        {.tape = tape, .training = true});
    const Variable losses = autograd::cross_entropy(logits, labels, {.scale = 1.0 / static_cast<double>(batch)});
    double loss = 0;
    for (const double one : testing::stored_values<double>(losses.value())) loss += one;
    const Bounds bounds = ambiguous && step > 0 ? kPastAmbiguousReLU : kStrict;
    EXPECT_NEAR(loss / static_cast<double>(batch), expected["loss"], bounds.loss * expected["loss"].get<double>());
    expect_tensor(expected["logits"], logits.value().values(), bounds.tensor, 0);

    model->forget_gradients();
    tape.backward(losses, losses.value());
    if (expected.contains("gradients")) {
      const double noise = 1e-6 * norm_of_all(expected["gradients"]);
      ASSERT_EQ(expected["gradients"].size(), model->parameters().size());
      for (const Parameter* parameter : model->parameters()) {
        SCOPED_TRACE("gradient of " + parameter->name());
        const Bounds reached = ambiguous && before_ambiguous_relu(parameter->name()) ? kPastAmbiguousReLU : kStrict;
        expect_tensor(expected["gradients"][parameter->name()],
                      ops::reorder(parameter->gradient(), Layout::plain).values(), reached.tensor, noise);
      }
    }
    golden_optimizer.optimizer->step(
        *model, {.learning_rate = golden_optimizer.learning_rate, .number = static_cast<int64_t>(step) + 1});
  }
  for (const auto& tensor : nn::state_dict(*model)) {
    SCOPED_TRACE(tensor.name);
    const bool state = golden["buffers"].contains(tensor.name);
    expect_tensor(golden[state ? "buffers" : "weights"][tensor.name], tensor.values,
                  (ambiguous ? kPastAmbiguousReLU : kStrict).tensor, state ? 1e-6 : 0);
  }
}

constexpr auto kDirect = ops::ConvolutionAlgorithm::direct;
constexpr auto kAutomatic = ops::ConvolutionAlgorithm::automatic;
const testing::DeviceRow kCuda = testing::device_rows()[1];

INSTANTIATE_TEST_SUITE_P(
    Models, Golden,
    ::testing::Values(GoldenCase{"lenet_sgd", kDirect}, GoldenCase{"lenet_momentum", kDirect},
                      GoldenCase{"lenet_nesterov", kDirect}, GoldenCase{"lenet_momentum", kAutomatic},
                      GoldenCase{"lenet_nesterov", kAutomatic}, GoldenCase{"lenet_sgd", kAutomatic},
                      GoldenCase{"lenet_adam", kAutomatic}, GoldenCase{"lenet_adamw", kAutomatic},
                      GoldenCase{"resnet18_margin", kDirect}, GoldenCase{"resnet18_margin", kAutomatic},
                      GoldenCase{"resnet18_sgd", kDirect}, GoldenCase{"resnet18_sgd", kAutomatic},
                      GoldenCase{"resnet18_momentum", kDirect}, GoldenCase{"resnet18_momentum", kAutomatic},
                      GoldenCase{"lenet_sgd", kAutomatic, kCuda}, GoldenCase{"lenet_momentum", kAutomatic, kCuda},
                      GoldenCase{"lenet_nesterov", kAutomatic, kCuda}, GoldenCase{"lenet_adam", kAutomatic, kCuda},
                      GoldenCase{"lenet_adamw", kAutomatic, kCuda}, GoldenCase{"resnet18_margin", kAutomatic, kCuda}),
    [](const auto& test) {
      std::ostringstream name;
      name << test.param;
      return name.str();
    });

}  // namespace
}  // namespace dptrain
