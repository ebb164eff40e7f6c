// The stages of a model as `plan --layers` shows them. Expected values are computed by hand from the models' papers.
#include "plan/model_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/layers_report.h"
#include "plan/planned_of.h"
#include "train/strategy_context.h"

namespace dptrain {
namespace {

using plan::ModelLayer;
using plan::ModelLayers;

const std::string kRest = "devices: cpu:0-1\nthreads: 1\nbatch_size: 8\nlearning_rate: 0.1\nepochs: 1\n";

ModelLayers layers_of(const std::string& model, const std::string& dataset) {
  const train::Experiment experiment =
      testing::experiment_of_lines("model: " + model + "\ndataset: " + dataset + "\nstrategy: ddp\n" + kRest);
  const Datasets data = experiment.dataset.open();
  return plan::layers_of(experiment.model, train::strategy_context(experiment, *data.train).replica.input);
}

const std::string kGrey = "{name: synthetic, shape: [1, 28, 28], samples: 16}";

int64_t convolution(int64_t in, int64_t out, int64_t kernel) { return out * in * kernel * kernel + out; }
int64_t linear(int64_t in, int64_t out) { return out * in + out; }
/// The parameters of a batch norm or a layer norm.
int64_t norm(int64_t width) { return 2 * width; }

std::vector<std::string> names(const ModelLayers& model) {
  std::vector<std::string> all;
  for (const ModelLayer& layer : model.layers) all.push_back(layer.name);
  return all;
}

std::vector<int64_t> parameters(const ModelLayers& model) {
  std::vector<int64_t> all;
  for (const ModelLayer& layer : model.layers) all.push_back(layer.parameters);
  return all;
}

std::vector<Shape> first_outputs(const ModelLayers& model) {
  std::vector<Shape> all;
  for (const ModelLayer& layer : model.layers) all.push_back(layer.outputs.front());
  return all;
}

TEST(ModelLayers, OfLeNet) {
  const ModelLayers lenet = layers_of("lenet", kGrey);
  EXPECT_EQ(lenet.input, (Shape{1, 28, 28}));
  EXPECT_EQ(names(lenet), (std::vector<std::string>{"conv1", "conv2", "fc1"}));
  EXPECT_EQ(first_outputs(lenet), (std::vector<Shape>{{20, 12, 12}, {50, 4, 4}, {10}}));
  EXPECT_EQ(parameters(lenet), (std::vector<int64_t>{convolution(1, 20, 5), convolution(20, 50, 5),
                                                     linear(50 * 4 * 4, 128) + linear(128, 10)}));
  EXPECT_EQ(lenet.parameters(), 129388);
  EXPECT_EQ(lenet.running_state, 0);
  // Each output needs one product per weight that contributes to it; biases aren't counted.
  EXPECT_EQ(lenet.layers[0].flops, 2. * 20 * 25 * 24 * 24);
  EXPECT_EQ(lenet.layers[1].flops, 2. * 50 * 20 * 25 * 8 * 8);
  EXPECT_EQ(lenet.layers[2].flops, 2. * (800 * 128 + 128 * 10));
}

TEST(ModelLayers, OfResNet18) {
  const ModelLayers resnet = layers_of("resnet18", kGrey);
  std::vector<int64_t> expected = {convolution(1, 64, 3) + norm(64)};
  std::vector<Shape> outputs = {{64, 28, 28}};
  int64_t width = 64, size = 28, normalized = 64;
  for (const int64_t out : {64, 128, 256, 512})
    for (int block = 0; block < 2; ++block) {
      const bool narrows = out != width;
      expected.push_back(convolution(width, out, 3) + convolution(out, out, 3) + 2 * norm(out) +
                         (narrows ? convolution(width, out, 1) : 0));
      if (narrows) size = (size + 1) / 2;
      outputs.push_back({out, size, size});
      normalized += 2 * out;
      width = out;
    }
  expected.push_back(linear(512, 10));
  outputs.push_back({10});
  EXPECT_EQ(parameters(resnet), expected);
  EXPECT_EQ(first_outputs(resnet), outputs);
  EXPECT_EQ(resnet.parameters(), 11175818);
  EXPECT_EQ(resnet.running_state, 2 * normalized) << "a mean and a variance of each channel";
  EXPECT_EQ(resnet.layers[1].name, "layer1.0");
}

/// Layers that a layer combines with belong to its stage.
TEST(ModelLayers, OfANetOfLayersWithAResidual) {
  const ModelLayers net = layers_of(
      "{layers: [conv: {channels: 4, kernel: 3, name: stem}, relu, max_pool: 2, "
      "residual: {layers: [conv: {channels: 6, kernel: 3, padding: 1, bias: false}, batch_norm], "
      "shortcut: [conv: {channels: 6, kernel: 1}]}, relu, flatten, dropout: 0.5, linear: classes]}",
      "{name: synthetic, shape: [3, 12, 12], samples: 16}");
  EXPECT_EQ(names(net), (std::vector<std::string>{"stem", "residual1", "flatten1", "dropout1", "fc1"}));
  EXPECT_EQ(first_outputs(net), (std::vector<Shape>{{4, 5, 5}, {6, 5, 5}, {150}, {150}, {10}}));
  EXPECT_EQ(parameters(net),
            (std::vector<int64_t>{convolution(3, 4, 3), convolution(4, 6, 3) - 6 + norm(6) + convolution(4, 6, 1), 0, 0,
                                  linear(150, 10)}));
  EXPECT_EQ(net.running_state, 2 * 6);
}

constexpr int64_t kWords = 60, kWidth = 32, kTokens = 24;
const std::string kText = "{name: synthetic, samples: 16}";

/// BERT's head predicts with the word embedding, which counts as part of the embedding layer.
int64_t head() { return linear(kWidth, kWidth) + linear(kWidth, kWidth) + norm(kWidth) + kWords + linear(kWidth, 2); }

TEST(ModelLayers, OfBertCountItsTiedDecoderOnce) {
  const ModelLayers bert = layers_of("{name: bert, vocab: 60, hidden: 32, layers: 2, heads: 2, seq: 24}", kText);
  EXPECT_EQ(bert.input, (Shape{kTokens}));
  EXPECT_EQ(names(bert),
            (std::vector<std::string>{"bert.embeddings", "bert.encoder.layer.0", "bert.encoder.layer.1", "head"}));
  const int64_t layer =
      4 * linear(kWidth, kWidth) + linear(kWidth, 4 * kWidth) + linear(4 * kWidth, kWidth) + 2 * norm(kWidth);
  EXPECT_EQ(parameters(bert),
            (std::vector<int64_t>{(kWords + kTokens + 2) * kWidth + norm(kWidth), layer, layer, head()}));
  EXPECT_EQ(first_outputs(bert),
            (std::vector<Shape>{{kTokens, kWidth}, {kTokens, kWidth}, {kTokens, kWidth}, {kTokens, kWords}}));
  EXPECT_EQ(bert.layers.back().outputs, (std::vector<Shape>{{kTokens, kWords}, {2}}));
}

TEST(ModelLayers, OfANetOfLayersHaveItsHeadsName) {
  const ModelLayers net = layers_of(
      "{layers: [embedding: {features: 32, vocab: 60, seq: 24}, attention: 2, "
      "pretraining_head: {name: pre.training}]}",
      kText);
  EXPECT_EQ(names(net), (std::vector<std::string>{"embedding1", "attention1", "pre.training"}));
  EXPECT_EQ(net.layers.back().parameters, head());
}

/// 39 billion parameters would take 155 GB.
TEST(ModelLayers, TakeNoMemory) {
  const ModelLayers bert = layers_of("{name: bert, vocab: 60, hidden: 8192, layers: 48, heads: 64, seq: 24}", kText);
  const int64_t width = 8192;
  EXPECT_GT(bert.parameters(), 48 * 12 * width * width);
}

TEST(ModelLayers, AreCountedByPlansOfStepsToo) {
  for (const std::string strategy : {"ddp", "{name: model_parallel, stages: [1, 2]}"}) {
    const train::Experiment experiment =
        testing::experiment_of_lines("model: lenet\ndataset: " + kGrey + "\nstrategy: " + strategy + "\n" + kRest);
    EXPECT_EQ(testing::planned_of(experiment, experiment.dataset.open()).parameters.all, 129388) << strategy;
  }
}

/// The first layers have neither gradients nor a backward pass, and only the last layer's gradient is sent.
TEST(ModelLayers, OfWhichSomeAreFrozen) {
  const auto planned = [](const std::string& freeze) {
    const train::Experiment experiment =
        testing::experiment_of_lines("model: lenet\ndataset: " + kGrey + "\nstrategy: ddp\n" + kRest + freeze);
    return testing::planned_of(experiment, experiment.dataset.open());
  };
  const plan::PlannedStep all = planned(""), last = planned("freeze: [conv1, conv2, fc1]\n");
  EXPECT_EQ(all.parameters.frozen, 0);
  EXPECT_EQ(last.parameters.all, all.parameters.all);
  EXPECT_EQ(last.parameters.frozen, 129388 - 1290);
  const auto calls = [](const plan::PlannedStep& step, const std::string& name) {
    return std::ranges::count(step.ranks[0].operators, name, &OperatorCost::name);
  };
  // With AVX2 convolution and pool are one operator, without it two. Without a backward pass these run in blocks of 8
  // channels; with so few samples the padding takes more memory than what is kept for a backward pass.
  const bool is_fused = calls(all, "conv2d_max_pool backward") > 0;
  for (const char* name : {is_fused ? "conv2d_max_pool backward" : "pool2d backward", "relu backward"}) {
    EXPECT_GT(calls(all, name), 0) << name;
    EXPECT_EQ(calls(last, name), 0) << name;
  }
  EXPECT_EQ(calls(last, "linear backward"), 1);
  EXPECT_LT(last.ranks[0].sent.bytes, 0.02 * all.ranks[0].sent.bytes);
  EXPECT_LT(last.ranks[0].memory_at_peak[MemoryPurpose::gradients], 0.02 * 4 * 129388);
  if (is_fused) {
    EXPECT_LT(last.ranks[0].memory_at_peak[MemoryPurpose::activations],
              all.ranks[0].memory_at_peak[MemoryPurpose::activations]);
  }
}

TEST(LayersReport, CutsNoName) {
  const std::string name(100, 'x');
  const plan::LayersReport report{
      .run = "a",
      .model = "layers",
      .of = {
          .input = {4},
          .running_state = 1234,
          .layers = {{name, {{5, 6}, {2}}, 1000, 950, 2e6}, {"b", {{7}}, 30, 0, 0}},
          .updates = {{.elements = 50}, {.factors = {1, 0}, .elements = 20}, {.factors = {10, 0.5}, .elements = 30}}}};
  EXPECT_EQ(report.text(80),
            "a: model layers, for one sample of [4]\n\n"
            "stage" +
                std::string(95, ' ') + "  output       parameters  MFLOP\n" + name +
                "  [5, 6], [2]       1,000   2.00\n"
                "b" +
                std::string(99, ' ') +
                "  [7]                  30   0.00\n"
                "all" +
                std::string(97, ' ') +
                "                    1,030   2.00\n\n"
                "950 of the parameters are frozen\n\n"
                "20 of the parameters are updated without weight decay\n\n"
                "30 of the parameters are updated at 10 times the learning rate, with 0.5 times\n"
                "the weight decay\n\n"
                "1,234 further elements are running state, which isn't trained\n");
}

}  // namespace
}  // namespace dptrain
