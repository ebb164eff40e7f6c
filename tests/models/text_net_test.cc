// Text nets as lists of layers: the small BERT written out computes what the built-in one computes, and every mistake
// has its message.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/cross_entropy.h"
#include "models/config_model.h"
#include "models/layered_net.h"
#include "models/layers_of.h"
#include "nn/named_values.h"
#include "optim/sgd.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain::models {
namespace {

using testing::expect_error;

constexpr int64_t kSamples = 3;
const ModelInput kText = {.text = TextSizes{.vocabulary = 4000, .sequence = 64}};

/// A model on its own device, with padded samples for it.
class TextNet {
 public:
  explicit TextNet(const ModelSpec& spec) : model_(spec.build({.device = *device_}, kText)) {
    model_->place(*device_, {.seed = 7, .weights = {}});
  }

  nn::Model& model() { return *model_; }

  /// The logits of all tokens, then those of the pairs.
  std::vector<std::vector<float>> evaluated() {
    Tape tape(Tape::Mode::forget);
    std::vector<std::vector<float>> values;
    for (const Variable& output : model_->outputs(tape.input(tokens()), {.tape = tape, .text = text()}))
      values.push_back(output.value().values());
    return values;
  }

  /// The mean losses of some steps with momentum: of masked tokens, and of pairs.
  std::vector<double> trained(int steps) {
    optim::Sgd sgd(optim::FlatWeights::of(*model_), {.momentum = 0.9});
    std::vector<double> means;
    for (int step = 1; step <= steps; ++step) {
      Tape tape(Tape::Mode::record);
      nn::TextInputs inputs = text();
      inputs.read = numbers({0, 64, 128, 5, 20, 70, 133}, {kSamples + 4});
      const auto outputs =
          model_->outputs(tape.input(tokens()), {.tape = tape,
                                                 .training = true,
                                                 .seed = 5,
                                                 .epoch = testing::epoch_on(*device_, 1),
                                                 .sample_ids = testing::sample_ids_on(*device_, 0, kSamples),
                                                 .text = inputs});
      const std::vector<std::vector<int32_t>> labels = {{17, 1800, 3999, 6}, {1, 0, 1}};
      std::vector<Tape::Root> roots;
      for (size_t i = 0; i < 2; ++i) {
        const double scale = 1.0 / static_cast<double>(labels[i].size());
        const Variable losses =
            autograd::cross_entropy(outputs[i], testing::labels_on(*device_, labels[i]), {.scale = scale});
        double sum = 0;
        for (const double loss : testing::stored_values<double>(losses.value())) sum += loss;
        means.push_back(sum * scale);
        roots.push_back({.output = losses, .gradient = losses.value()});
      }
      model_->forget_gradients();
      tape.backward(std::move(roots));
      sgd.step({.learning_rate = 0.05, .number = step});
    }
    return means;
  }

 private:
  Tensor numbers(const std::vector<int32_t>& values, const Shape& shape) const {
    return testing::labels_on(*device_, values).reshaped(shape);
  }
  Tensor by_place(int32_t (*value)(int32_t sample, int32_t place)) const {
    std::vector<int32_t> values;
    for (int32_t n = 0; n < kSamples; ++n)
      for (int32_t place = 0; place < 64; ++place) values.push_back(value(n, place));
    return numbers(values, {kSamples, 64});
  }
  static int32_t length(int32_t sample) { return 64 - 10 * sample; }
  Tensor tokens() const {
    return by_place([](int32_t n, int32_t place) { return place < length(n) ? (100 * n + 37 * place) % 4000 : 0; });
  }
  nn::TextInputs text() const {
    return {.segments = by_place([](int32_t, int32_t place) { return place < 30 ? 0 : 1; }),
            .positions = by_place([](int32_t, int32_t place) { return place; }),
            .lengths = numbers({length(0), length(1), length(2)}, {kSamples}),
            .firsts = numbers({0, 64, 128}, {kSamples})};
  }

  std::unique_ptr<Device> device_ = testing::test_device();
  std::unique_ptr<nn::Model> model_;
};

/// The built-in BERT's names for the layers at the same place of the list.
const std::map<std::string, std::string> kNames = {
    {"embedding1.words.weight", "bert.embeddings.word_embeddings.weight"},
    {"embedding1.segments.weight", "bert.embeddings.token_type_embeddings.weight"},
    {"ln1.weight", "bert.embeddings.LayerNorm.weight"},
    {"residual1.0.attention1.query.weight", "bert.encoder.layer.0.attention.self.query.weight"},
    {"residual1.3.attention1.output.bias", "bert.encoder.layer.3.attention.output.dense.bias"},
    {"ln2.2.bias", "bert.encoder.layer.2.attention.output.LayerNorm.bias"},
    {"residual2.1.fc1.weight", "bert.encoder.layer.1.intermediate.dense.weight"},
    {"residual2.1.fc2.bias", "bert.encoder.layer.1.output.dense.bias"},
    {"ln3.3.weight", "bert.encoder.layer.3.output.LayerNorm.weight"},
    {"head1.pooler.weight", "bert.pooler.dense.weight"},
    {"head1.predictions.decoder.weight", "cls.predictions.decoder.weight"},
    {"head1.next_sentence.bias", "cls.seq_relationship.bias"}};

/// The small BERT, built in and written out, with the same weights. Both register their layers in the same order.
class BertWrittenOut : public ::testing::Test {
 protected:
  BertWrittenOut() : built_in_(model_of("bert_small_1cpu.yaml")), written_out_(model_of("bert_layers_1cpu.yaml")) {
    const auto weights = nn::state_dict(built_in_.model());
    auto renamed = nn::state_dict(written_out_.model());
    if (renamed.size() != weights.size()) throw std::runtime_error("the lists of parameters differ");
    for (size_t i = 0; i < weights.size(); ++i) renamed[i].values = weights[i].values;
    nn::load_state_dict(written_out_.model(), renamed);
  }

  TextNet built_in_;
  TextNet written_out_;
};

TEST_F(BertWrittenOut, HasTheBuiltInsParameters) {
  const auto expected = nn::state_dict(built_in_.model()), state = nn::state_dict(written_out_.model());
  size_t found = 0;
  for (size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(state[i].shape, expected[i].shape) << state[i].name;
    const auto name = kNames.find(state[i].name);
    if (name == kNames.end()) continue;
    ++found;
    EXPECT_EQ(expected[i].name, name->second);
  }
  EXPECT_EQ(found, kNames.size());
}

TEST_F(BertWrittenOut, MakesTheBuiltInsBits) {
  const auto expected = built_in_.evaluated(), got = written_out_.evaluated();
  ASSERT_EQ(got.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(got[i] == expected[i]) << "output " << i;
}

/// With dropout, which both number alike. In the last layer both compute only the rows that are predicted.
TEST_F(BertWrittenOut, LearnsInTheBuiltInsBits) {
  const auto expected = built_in_.trained(4), got = written_out_.trained(4);
  EXPECT_EQ(got, expected);
  EXPECT_LT(got[6], 0.9 * got[0]) << "it learns";
}

/// The ranks of the stages' outputs in a training step.
TEST_F(BertWrittenOut, MakesOnlyTheReadRowsFromTheLastAttentionOn) {
  std::vector<int> ranks;
  written_out_.model().watch_stages(
      [&](int, const Tensor& output, const nn::ForwardContext&) { ranks.push_back(output.shape().rank()); });
  written_out_.trained(1);
  // Embedding, norm and dropout; then four times two blocks with their norms.
  EXPECT_EQ(ranks, (std::vector<int>{3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2}));
}

/// The loss of the read rows equals the loss from the logits of all tokens, whichever side of a block drops the other
/// rows.
TEST(TextNets, LoseNothingWithTheRowsThatAreNotRead) {
  for (const char* blocks :
       {"attention: 2", "residual: [attention: 2]", "residual: {layers: [linear: 8], shortcut: [attention: 2]}",
        "residual: {layers: [attention: 2], shortcut: [attention: 2]}",
        "residual: [linear: 8, residual: [attention: 2], gelu]",
        "silu, residual: [linear: {features: 8, bias: false}, attention: 2, leaky_relu: 0.2, sigmoid]"}) {
    SCOPED_TRACE(blocks);
    const auto layers =
        layers_of(std::string("[embedding: 8, ") + blocks + ", layer_norm, linear: 8, pretraining_head]");
    TextNet net({.name = "layers", .build = [&](const nn::LayerOptions& options, const ModelInput& input) {
                   return build_layered_net(layers, options, input);
                 }});
    const std::vector<float> logits = net.evaluated().front();
    double expected = 0;
    for (const auto& [row, label] : {std::pair{5, 17}, {20, 1800}, {70, 3999}, {133, 6}}) {
      const float* of_row = logits.data() + int64_t{row} * 4000;
      double sum = 0;
      for (int word = 0; word < 4000; ++word) sum += std::exp(double{of_row[word]});
      expected += (std::log(sum) - of_row[label]) / 4;
    }
    EXPECT_NEAR(net.trained(1).front(), expected, 1e-5);
  }
}

TEST(TextNets, BeginAsBertDoesAndKeepPaddingsRow) {
  const auto device = testing::test_device();
  const auto model =
      build_layered_net(layers_of("[embedding: 64, attention: 8, pretraining_head]"), {.device = *device}, kText);
  model->place(*device, {});
  for (const auto& tensor : nn::state_dict(*model)) {
    double square = 0;
    for (const float value : tensor.values) square += double{value} * value;
    const double deviation = std::sqrt(square / static_cast<double>(tensor.values.size()));
    if (tensor.shape.rank() > 1) {
      EXPECT_NEAR(deviation, 0.02, 0.003) << tensor.name;
    } else {
      EXPECT_EQ(deviation, tensor.name.ends_with("LayerNorm.weight") ? 1 : 0) << tensor.name;
    }
    if (tensor.name == "embedding1.words.weight") {
      EXPECT_TRUE(std::all_of(tensor.values.begin(), tensor.values.begin() + 64, [](float v) { return v == 0; }));
    }
  }
}

TEST(TextNets, LeaveOutPlacesAndSegments) {
  const auto device = testing::test_device();
  const auto embeddings = [&](const std::string& options) {
    const auto model = build_layered_net(layers_of("[embedding: {features: 8" + options + "}, pretraining_head]"),
                                         {.device = *device}, kText);
    model->place(*device, {});
    std::vector<std::string> names;
    for (const auto& tensor : nn::state_dict(*model))
      if (tensor.name.starts_with("embedding1.")) names.push_back(tensor.name.substr(11));
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(embeddings(""), (Names{"words.weight", "positions.weight", "segments.weight"}));
  EXPECT_EQ(embeddings(", positions: false"), (Names{"words.weight", "segments.weight"}));
  EXPECT_EQ(embeddings(", segments: false"), (Names{"words.weight", "positions.weight"}));
  EXPECT_EQ(embeddings(", positions: false, segments: false"), (Names{"words.weight"}));
}

TEST(TextNets, AskTheDataSetForTheirSizes) {
  const auto asked = [](const std::string& layers) {
    ModelSpec spec;
    const ConfigSession session(parse_config("model: {layers: " + layers + "}\n", "a.yaml"),
                                [&](ConfigReader& reader) { spec = read_model(reader); });
    return spec.text;
  };
  EXPECT_FALSE(asked("[flatten, linear: classes]").has_value());
  const auto named = asked("[embedding: {features: 8, vocab: 60, seq: 24}, pretraining_head]");
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(named->vocabulary, 60);
  EXPECT_EQ(named->sequence, 24);
  EXPECT_TRUE(asked("[embedding: 8, pretraining_head]").has_value());
}

class TextMistakes : public ::testing::Test {
 protected:
  void expect_refused(const std::string& layers, std::string_view sentence, const ModelInput& input = kText) const {
    expect_error(ExitCode::config, {sentence},
                 [&] { build_layered_net(layers_of(layers), {.device = *device_}, input); });
  }
  const ModelInput images_ = {.image = {1, 16, 16}};
  std::unique_ptr<Device> device_ = testing::test_device();
};

TEST_F(TextMistakes, MoreValuesThanFitAnywhereAreOfATokensWidth) {
  ModelInput longest = kText;
  longest.text->sequence = 65536;
  expect_refused(
      "[{embedding: {features: 8, seq: 65536}}, linear: 65536, pretraining_head]",
      "a layer may output at most 1073741824 values per sample, got [N, 65536, 65536]; choose a smaller width "
      "or a shorter sequence",
      longest);
}

TEST_F(TextMistakes, WhatALayerCannotTake) {
  expect_refused("[embedding: 32, attention: 5, pretraining_head]",
                 "a.yaml:1:25: layers[1].attention (attention1): 5 heads need tokens [N, S, E] whose width E is a "
                 "multiple of 5, got [N, 64, 32]; choose a number of heads that divides 32");
  expect_refused(
      "[flatten, attention: 8]",
      "layers[1].attention (attention1): needs tokens [N, S, E], got [N, 256]; begin the list with embedding", images_);
  for (const char* layer :
       {"conv: {channels: 4, kernel: 3}", "batch_norm", "max_pool: 2", "global_avg_pool", "flatten"})
    expect_refused("[embedding: 32, " + std::string(layer) + ", pretraining_head]",
                   "needs images [N, C, H, W], got [N, 64, 32]; leave it out of a net of text");
  expect_refused("[embedding: 32, linear: classes, pretraining_head]",
                 "(fc1): features: classes needs a data set of images, got [N, 64, 32]; write a number");
  expect_refused(
      "[embedding: 32, residual: [linear: 16], pretraining_head]",
      "(residual1): needs two outputs of the same shape to add, got [N, 64, 16] from its layers and [N, 64, 32] "
      "from its input; write shortcut: [linear: 16]");
  expect_refused("[embedding: 32, residual: {layers: [linear: 48], shortcut: padded}, pretraining_head]",
                 "leave out shortcut: padded");
}

/// A name with dots may equal the name of a layer's own parts.
TEST_F(TextMistakes, ParametersOfOneName) {
  expect_refused(
      "[embedding: 32, attention: {heads: 4, name: layer.0}, linear: {features: 32, name: layer.0.output}, "
      "pretraining_head]",
      "expected a name of its own for each parameter, got two called layer.0.output.weight; write another name: in one "
      "of their layers");
}

TEST_F(TextMistakes, AnEmbeddingThatDoesntStandFirst) {
  expect_refused("[flatten, embedding: 32]",
                 "a.yaml:1:19: layers[1].embedding (embedding1): must be the first layer of the list, with tokens [N, "
                 "S] as input, got [N, 256]; move it to the beginning",
                 images_);
  expect_refused("[embedding: 32, embedding: 32, pretraining_head]",
                 "(embedding2): must be the first layer of the list");
  expect_refused("[repeat: {times: 1, layers: [embedding: 32]}]", "(embedding1.0): must be the first layer of the list",
                 images_);
}

TEST_F(TextMistakes, DataThatDoesntFit) {
  expect_refused("[embedding: 32, pretraining_head]",
                 "a.yaml:1:10: layers[0].embedding (embedding1): needs a data set of text, got images; write dataset: "
                 "text, or dataset: synthetic",
                 images_);
  expect_refused(
      "[embedding: {features: 32, vocab: 60}, pretraining_head]",
      "layers[0].embedding (embedding1): needs a text with a vocabulary of 60, got 4000; give model and data set the "
      "same vocabulary");
  expect_refused("[embedding: {features: 32, seq: 32}, pretraining_head]",
                 "(embedding1): takes at most 32 tokens per sample, got 64; give the model a larger seq");
  expect_refused("[linear: classes]",
                 "model: needs a data set of images, got text; choose another data set, model: bert, or a list of "
                 "layers that begins with embedding");
}

TEST_F(TextMistakes, AnEndThatMakesNoLosses) {
  expect_refused("[embedding: 32, attention: 8]",
                 "layers[1].attention (attention1): the last layer of a net of text must be pretraining_head, got "
                 "[N, 64, 32]; end with pretraining_head");
  expect_refused("[embedding: 32, pretraining_head, layer_norm]",
                 "layers[1].pretraining_head (head1): must be the last layer of the list, got [N, 64, 32]; move it to "
                 "the end");
  expect_refused("[embedding: 32, residual: [pretraining_head]]", "(residual1.head1): must be the last layer");
  expect_refused(
      "[embedding: 32, linear: 16, pretraining_head]",
      "(head1): needs tokens of the embedding's width, [N, S, 32], got [N, 64, 16]; put linear: 32 before it");
  expect_refused("[flatten, pretraining_head]",
                 "(head1): needs tokens [N, S, E], got [N, 256]; begin the list with embedding, or end it with linear: "
                 "classes",
                 images_);
}

}  // namespace
}  // namespace dptrain::models
