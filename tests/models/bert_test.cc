#include "models/bert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "config/config_document.h"
#include "models/state_names.h"
#include "nn/named_values.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain::models {
namespace {

using testing::expect_error;

constexpr BertOptions kTiny = {.vocabulary = 30, .hidden = 8, .layers = 1, .heads = 2, .sequence = 12};
const ModelInput kTinyText = {.text = TextSizes{.vocabulary = 30, .sequence = 12}};

ModelSpec read(const std::string& text) {
  ModelSpec spec;
  const ConfigSession session(parse_config(text, "a.yaml"), [&](ConfigReader& config) { spec = read_model(config); });
  return spec;
}

class Bert : public ::testing::Test {
 protected:
  std::unique_ptr<nn::Model> placed(const BertOptions& options, const ModelInput& input, uint64_t seed = 0) {
    auto model = build_bert(options, input);
    model->place(*device_, {.seed = seed, .weights = {}});
    return model;
  }
  std::unique_ptr<Device> device_ = testing::test_device();
};

TEST_F(Bert, HasTheStateOfHuggingFaces) {
  const ModelSpec spec = read("model: bert");
  ASSERT_TRUE(spec.text.has_value());
  const auto model = spec.build({.device = *device_}, {.text = spec.text});
  model->place(*device_, {});
  testing::expect_state_names(*model, "bert");
}

TEST_F(Bert, BeginsAsHuggingFacesDoes) {
  const auto model = placed({.vocabulary = 4000}, {.text = TextSizes{.vocabulary = 4000, .sequence = 163}});
  for (const auto& tensor : nn::state_dict(*model)) {
    SCOPED_TRACE(tensor.name);
    double square = 0;
    for (const float value : tensor.values) square += double{value} * value;
    const double deviation = std::sqrt(square / static_cast<double>(tensor.values.size()));
    if (tensor.shape.rank() > 1)
      EXPECT_NEAR(deviation, 0.02, tensor.values.size() < 1000 ? 0.002 : 0.0005);
    else
      EXPECT_EQ(deviation, tensor.name.ends_with("LayerNorm.weight") ? 1 : 0);
  }
  const auto state = nn::state_dict(*model);
  EXPECT_TRUE(std::all_of(state[0].values.begin(), state[0].values.begin() + 256, [](float v) { return v == 0; }))
      << "the row of padding";
}

TEST_F(Bert, PaddingIsReadByNoOtherToken) {
  const auto model = placed(kTiny, kTinyText);
  const auto logits_of = [&](int32_t in_padding) {
    std::vector<int32_t> tokens = {2, 7, 8, 3, 9, 3, 0, 0, 0, 0, 0, in_padding};
    std::vector<int32_t> positions(12), segments(12, 0);
    for (int32_t i = 0; i < 12; ++i) positions[static_cast<size_t>(i)] = i;
    const auto on_device = [&](const std::vector<int32_t>& values, const Shape& shape) {
      return testing::labels_on(*device_, values).reshaped(shape);
    };
    Tape tape(Tape::Mode::forget);
    const auto outputs =
        model->outputs(tape.input(on_device(tokens, {1, 12})), {.tape = tape,
                                                                .text = {.segments = on_device(segments, {1, 12}),
                                                                         .positions = on_device(positions, {1, 12}),
                                                                         .lengths = on_device({6}, {1}),
                                                                         .firsts = on_device({0}, {1})}});
    auto values = outputs[0].value().values();
    values.resize(6 * 30);
    const auto pair = outputs[1].value().values();
    values.insert(values.end(), pair.begin(), pair.end());
    return values;
  };
  EXPECT_EQ(logits_of(0), logits_of(25));
}

// The last layer computes the rows that the head reads, dropout included, as it computes them among all rows.
TEST_F(Bert, RowsThatAreReadDontDependOnTheOthers) {
  BertOptions two_layers = kTiny;
  two_layers.layers = 2;
  two_layers.dropout = 0.3f;
  const auto model = placed(two_layers, kTinyText);
  const std::vector<int32_t> firsts = {0, 12}, predicted = {4, 15, 7, 23, 0};
  const auto on_device = [&](const std::vector<int32_t>& values, const Shape& shape) {
    return testing::labels_on(*device_, values).reshaped(shape);
  };
  std::vector<int32_t> tokens(24), positions(24), read = firsts;
  for (int32_t i = 0; i < 24; ++i) tokens[static_cast<size_t>(i)] = 1 + i, positions[static_cast<size_t>(i)] = i % 12;
  read.insert(read.end(), predicted.begin(), predicted.end());
  const auto outputs_of = [&](bool some) {
    Tape tape(Tape::Mode::record);
    nn::TextInputs text{.segments = on_device(std::vector<int32_t>(24, 1), {2, 12}),
                        .positions = on_device(positions, {2, 12}),
                        .lengths = on_device({12, 10}, {2}),
                        .firsts = on_device(firsts, {2})};
    if (some) text.read = on_device(read, {7});
    const auto outputs =
        model->outputs(tape.input(on_device(tokens, {2, 12})), {.tape = tape,
                                                                .training = true,
                                                                .seed = 5,
                                                                .epoch = testing::epoch_on(*device_, 0),
                                                                .sample_ids = testing::sample_ids_on(*device_, 8, 10),
                                                                .text = text});
    return std::pair{outputs[0].value().values(), outputs[1].value().values()};
  };
  const auto [all, all_pairs] = outputs_of(false);
  const auto [some, pairs] = outputs_of(true);
  ASSERT_EQ(some.size(), predicted.size() * 30);
  for (size_t r = 0; r < predicted.size(); ++r)
    for (size_t i = 0; i < 30; ++i)
      EXPECT_NEAR(some[r * 30 + i], all[static_cast<size_t>(predicted[r]) * 30 + i], 1e-5) << "row " << r;
  ASSERT_EQ(pairs.size(), all_pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) EXPECT_NEAR(pairs[i], all_pairs[i], 1e-5);
}

TEST_F(Bert, TiedTensorsMayStandUnderEitherName) {
  const auto source = placed(kTiny, kTinyText, 1);
  const auto state = nn::state_dict(*source);
  const auto without = [&](const std::string& name) {
    auto rest = state;
    std::erase_if(rest, [&](const nn::NamedValues& tensor) { return tensor.name == name; });
    return nn::with_tied_names(state, rest, "w.safetensors");
  };
  for (const char* name : {"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight",
                           "cls.predictions.bias", "cls.predictions.decoder.bias"}) {
    SCOPED_TRACE(name);
    const auto complete = without(name);
    nn::require_same_tensors(state, complete, "w.safetensors");
    const auto model = placed(kTiny, kTinyText, 2);
    nn::load_state_dict(*model, complete);
    const auto loaded = nn::state_dict(*model);
    for (size_t t = 0; t < state.size(); ++t) EXPECT_TRUE(loaded[t].values == state[t].values) << state[t].name;
  }
  auto differing = state;
  differing.back().values[0] += 1;
  expect_error(ExitCode::bad_data, {"w.safetensors", "cls.predictions.decoder.bias", "cls.predictions.bias"},
               [&] { nn::with_tied_names(state, differing, "w.safetensors"); });
}

TEST_F(Bert, RefusesDataThatDoesntFit) {
  expect_error(ExitCode::config, {"model: needs a data set of text, got images"}, [&] {
    build_bert(kTiny, {.image = {1, 28, 28}});
  });
  expect_error(ExitCode::config, {"30", "40", "vocabulary"},
               [&] { build_bert(kTiny, {.text = TextSizes{.vocabulary = 40, .sequence = 12}}); });
  expect_error(ExitCode::config, {"at most 12", "13", "seq"},
               [&] { build_bert(kTiny, {.text = TextSizes{.vocabulary = 30, .sequence = 13}}); });
  EXPECT_NE(build_bert(kTiny, {.text = TextSizes{.vocabulary = 30, .sequence = 5}}), nullptr);
  expect_error(ExitCode::config, {"model: needs a data set of images, got text"},
               [&] { find_model("lenet").build({.device = *device_}, kTinyText); });
  expect_error(ExitCode::config, {"a.yaml:1", "heads", "divisor of hidden: 256", "7"},
               [] { read("model: {name: bert, heads: 7}"); });
}

}  // namespace
}  // namespace dptrain::models
