// Three optimizer steps of BERT against PyTorch's in double precision: the loss of all positions, their logits, every
// gradient and every weight. golden.py in this folder makes the values, and documents the formulas.

#include "models/bert.h"

#include <gtest/gtest.h>

#include <numeric>

#include "autograd/cross_entropy.h"
#include "golden/golden_trace.h"
#include "golden/text_batch.h"
#include "nn/named_values.h"
#include "ops/reorder.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"
#include "support/optimizer_steps.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

struct BertCase {
  const char* file;
  testing::DeviceRow device = testing::device_rows()[0];
};

std::ostream& operator<<(std::ostream& out, const BertCase& c) {
  return out << c.file << (c.device.device.kind == DeviceKind::cuda ? "_cuda" : "");
}

class BertGolden : public ::testing::TestWithParam<BertCase> {};

TEST_P(BertGolden, ThreeOptimizerSteps) {
  const json golden = read_golden(GetParam().file);
  const auto device = GetParam().device.open();
  const models::TextSizes sizes{.vocabulary = golden["vocab"], .sequence = golden["seq"]};
  const models::ModelSpec bert{.name = "bert", .build = [&](const nn::LayerOptions&, const models::ModelInput& input) {
                                 return models::build_bert(
                                     {.vocabulary = sizes.vocabulary, .sequence = sizes.sequence, .dropout = 0}, input);
                               }};
  const auto model = as_traced(bert, golden).build({.device = *device}, {.text = sizes});
  model->place(*device, {});
  ASSERT_EQ(model->parameter_elements(), golden["parameters"].get<int64_t>());
  const uint64_t seed = golden["seed"];
  const auto beginning = testing::fill_by_formula(*model, seed);
  const GoldenOptimizer golden_optimizer = optimizer_of(golden["optimizer"], *model);

  for (size_t step = 0; step < golden["trace"].size(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const json& expected = golden["trace"][step];
    const testing::TextFormulaBatch batch = testing::text_by_formula(
        *device, {.samples = golden["batch"], .length = golden["seq"], .vocabulary = golden["vocab"]}, seed + step);
    Tape tape(Tape::Mode::record);
    const auto outputs =
        model->outputs(tape.input(batch.tokens), {.tape = tape, .training = true, .text = batch.inputs});
    std::vector<Tape::Root> roots;
    double loss = 0;
    for (size_t k = 0; k < outputs.size(); ++k) {
      const auto count = static_cast<double>(batch.counts[k]);
      const Variable losses = autograd::cross_entropy(outputs[k], batch.targets[k], {.scale = 1 / count});
      const auto values = testing::stored_values<double>(losses.value());
      loss += std::accumulate(values.begin(), values.end(), 0.0) / count;
      roots.push_back({.output = losses, .gradient = losses.value()});
    }
    EXPECT_NEAR(loss, expected["loss"], kStrict.loss * expected["loss"].get<double>());
    expect_tensor(expected["logits"], outputs[0].value().values(), kStrict.tensor, 0);

    model->forget_gradients();
    tape.backward(std::move(roots));
    if (expected.contains("gradients")) {
      const double noise = 1e-6 * norm_of_all(expected["gradients"]);
      ASSERT_EQ(expected["gradients"].size(), model->parameters().size());
      for (const Parameter* parameter : model->parameters()) {
        SCOPED_TRACE("gradient of " + parameter->name());
        expect_tensor(expected["gradients"][parameter->name()], parameter->gradient().values(), kStrict.tensor, noise);
      }
    }
    testing::step_whole(*golden_optimizer.optimizer, optim::FlatWeights::of(*model),
                        {.learning_rate = golden_optimizer.learning_rate, .number = static_cast<int64_t>(step) + 1});
  }
  for (const Parameter* parameter : model->frozen_parameters())
    EXPECT_EQ(parameter->value().values(), as_float(beginning.at(parameter->name())));
  for (const Parameter* parameter : model->parameters()) {
    SCOPED_TRACE(parameter->name());
    // The gradient of a key's bias is zero in exact arithmetic, and Adam makes steps of the learning rate from its
    // rounding error.
    const bool moved_by_noise = parameter->name().ends_with("key.bias");
    const double walk = golden_optimizer.learning_rate * static_cast<double>(golden["trace"].size()) *
                        std::sqrt(static_cast<double>(parameter->shape().elements()));
    expect_tensor(golden["weights"][parameter->name()], parameter->value().values(), kStrict.tensor,
                  moved_by_noise ? walk : 0);
    if (!moved_by_noise)
      expect_movement(golden["weights"][parameter->name()], beginning.at(parameter->name()),
                      parameter->value().values(), 3e-3);
  }
}

const testing::DeviceRow kOnCuda = testing::device_rows()[1];

INSTANTIATE_TEST_SUITE_P(Bert, BertGolden,
                         ::testing::Values(BertCase{"bert_adam"}, BertCase{"bert_adamw"}, BertCase{"bert_frozen"},
                                           BertCase{"bert_adam", kOnCuda}, BertCase{"bert_adamw", kOnCuda},
                                           BertCase{"bert_groups"}, BertCase{"bert_groups", kOnCuda},
                                           BertCase{"bert_lamb"}, BertCase{"bert_lamb", kOnCuda}),
                         [](const auto& test) {
                           std::ostringstream name;
                           name << test.param;
                           return name.str();
                         });

}  // namespace
}  // namespace dptrain
