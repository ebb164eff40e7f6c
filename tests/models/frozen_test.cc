// Frozen parameters of a model: the names that select them, and where their values are.
#include "models/frozen.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/bert.h"
#include "nn/named_values.h"
#include "ops/reorder.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain::models {
namespace {

using testing::expect_error;

const ModelInput kDigits = {.image = {1, 28, 28}, .classes = 10};
constexpr TextSizes kSmallText = {.vocabulary = 60, .sequence = 24};

ModelSpec tiny_bert() {
  return {.name = "bert", .build = [](const nn::LayerOptions&, const ModelInput& input) {
            return build_bert({.vocabulary = 60, .hidden = 16, .layers = 2, .heads = 2, .sequence = 24, .dropout = 0},
                              input);
          }};
}

class Frozen : public ::testing::Test {
 protected:
  std::unique_ptr<nn::Model> placed(const ModelSpec& spec, const ModelInput& input, DType compute = DType::f32,
                                    const nn::StageRanges& part = {{}}) const {
    auto model = spec.build({.device = *device_}, input);
    model->place(*device_, {.seed = 7}, compute, part);
    return model;
  }
  static std::vector<std::string> names(std::span<Parameter* const> parameters) {
    std::vector<std::string> all;
    for (const Parameter* parameter : parameters) all.push_back(parameter->name());
    return all;
  }
  static std::vector<std::pair<std::string, std::vector<float>>> sorted_state(const nn::Model& model) {
    std::vector<std::pair<std::string, std::vector<float>>> state;
    nn::for_each_state(model, [&](const nn::NamedValues& one) { state.emplace_back(one.name, one.values); });
    return state;
  }
  std::unique_ptr<Device> device_ = testing::test_device();
};

TEST_F(Frozen, ModulesAndSingleParametersByTheirNames) {
  const ModelSpec whole = find_model("lenet");
  const auto model = placed(with_frozen(whole, {"conv1", "fc1.bias"}, "freeze"), kDigits);
  EXPECT_EQ(names(model->parameters()),
            (std::vector<std::string>{"conv2.weight", "conv2.bias", "fc1.weight", "fc2.weight", "fc2.bias"}));
  EXPECT_EQ(names(model->frozen_parameters()), (std::vector<std::string>{"conv1.weight", "conv1.bias", "fc1.bias"}));
  // Flat buffers don't contain them, and every tensor has the same initial values as in the whole model.
  const auto all = placed(whole, kDigits);
  EXPECT_LT(model->weights().elements(), all->weights().elements());
  EXPECT_EQ(model->gradients().elements(), model->weights().elements());
  EXPECT_EQ(sorted_state(*model), sorted_state(*all));
}

TEST_F(Frozen, ValuesAreLoadedAndComputedWithInHalfPrecision) {
  const auto from = placed(find_model("lenet"), kDigits);
  auto state = nn::state_dict(*from);
  for (auto& tensor : state)
    for (float& value : tensor.values) value = 0.5f;
  const auto model = placed(with_frozen(find_model("lenet"), {"conv1"}, "freeze"), kDigits, DType::bf16);
  nn::load_state_dict(*model, state);
  for (const Parameter* parameter : model->frozen_parameters()) {
    EXPECT_EQ(parameter->operand().dtype(), DType::bf16);
    EXPECT_EQ(
        testing::values_of(ops::converted(parameter->operand(), {.dtype = DType::f32, .layout = parameter->layout()})),
        std::vector<float>(static_cast<size_t>(parameter->shape().elements()), 0.5f));
  }
}

TEST_F(Frozen, ATiedParameterUnderEitherOfItsNames) {
  for (const char* name : {"bert.embeddings.word_embeddings", "cls.predictions.decoder.weight"}) {
    const auto model = placed(with_frozen(tiny_bert(), {name}, "freeze"), {.text = kSmallText});
    EXPECT_EQ(names(model->frozen_parameters()), std::vector<std::string>{"bert.embeddings.word_embeddings.weight"});
  }
}

TEST_F(Frozen, APartOfTheModelBorrowsItFromTheStageThatHasIt) {
  const ModelSpec spec = with_frozen(tiny_bert(), {"bert.embeddings.word_embeddings"}, "freeze");
  const auto whole = placed(spec, {.text = kSmallText});
  const auto end = placed(spec, {.text = kSmallText}, DType::f32, {{.begin = 1}});
  EXPECT_TRUE(end->borrowed_parameters().empty());
  ASSERT_EQ(names(end->frozen_parameters()), std::vector<std::string>{"bert.embeddings.word_embeddings.weight"});
  EXPECT_TRUE(end->own_frozen_parameters().empty());
  EXPECT_EQ(end->frozen_parameters()[0]->value().values(), whole->frozen_parameters()[0]->value().values());
}

TEST_F(Frozen, RefuseWhatTheModelDoesNotHave) {
  const auto expect_refused = [&](const ModelSpec& spec, const ModelInput& input,
                                  const std::vector<std::string>& entries,
                                  std::initializer_list<std::string_view> said) {
    expect_error(ExitCode::config, said,
                 [&] { with_frozen(spec, entries, "a.yaml:2:1: freeze").build({.device = *device_}, input); });
  };
  expect_refused(find_model("lenet"), kDigits, {"conv1", "conv"},
                 {"a.yaml:2:1: freeze: expected names of the model's parameters or of its modules, got 'conv'; did you "
                  "mean 'conv1'?"});
  // A message doesn't list all of a large model's names, only those possible at the point where the entry goes wrong.
  expect_refused(tiny_bert(), {.text = kSmallText}, {"zzzzzzzz"}, {"got 'zzzzzzzz'; choose one of: bert, cls"});
  expect_refused(tiny_bert(), {.text = kSmallText}, {"bert.encoder.layer.100000000"},
                 {"choose one of: bert.encoder.layer.0, bert.encoder.layer.1"});
  expect_refused(find_model("lenet"), kDigits, {"conv1.weight.of.something"},
                 {"choose one of: conv1.bias, conv1.weight"});
  expect_refused(find_model("lenet"), kDigits, {"conv1", "conv2", "fc1", "fc2"},
                 {"freeze: expected at least one parameter to remain trainable, got all of them frozen"});
}

}  // namespace
}  // namespace dptrain::models
