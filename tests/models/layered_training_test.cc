// The built-in models written out layer by layer train to the same bits. Names and passes are the same and, except for
// PyramidNet, so are the initial values.

#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/cross_entropy.h"
#include "models/config_model.h"
#include "nn/named_values.h"
#include "optim/sgd.h"
#include "support/formula_values.h"
#include "support/test_device.h"

namespace dptrain::models {
namespace {

struct Training {
  nn::InitializationOptions initialization;
  int64_t batch = 4;
  Shape image = {1, 28, 28};
  std::vector<nn::NamedValues> start = {};  ///< used instead of the initial values
  int steps = 3;
};

/// The state after a few steps on `device`.
std::vector<nn::NamedValues> trained_on(Device& device, const ModelSpec& spec, const Training& training) {
  const auto model = spec.build({.device = device}, {.image = training.image, .classes = 10});
  model->place(device, training.initialization);
  if (!training.start.empty()) nn::load_state_dict(*model, training.start);
  const int64_t batch = training.batch, channels = training.image[0], side = training.image[1];
  optim::Sgd sgd(optim::FlatWeights::of(*model), {.momentum = 0.9});
  for (int step = 1; step <= training.steps; ++step) {
    const auto seed = static_cast<uint64_t>(step);
    const auto labels = testing::labels_on(device, testing::formula_labels(seed, batch, 10));
    Tape tape(Tape::Mode::record);
    const Variable logits =
        model->forward(tape.input(Tensor::from(device, {batch, channels, side, side},
                                               testing::formula_images(seed, batch * training.image.elements()))),
                       {.tape = tape, .training = true});
    const Variable losses = autograd::cross_entropy(logits, labels, {.scale = 1.0 / static_cast<double>(batch)});
    model->forget_gradients();
    tape.backward(losses, losses.value());
    sgd.step({.learning_rate = 0.05, .number = step});
  }
  return nn::state_dict(*model);
}

std::vector<nn::NamedValues> trained(const ModelSpec& spec, const Training& training) {
  const auto device = testing::test_device();
  return trained_on(*device, spec, training);
}

void expect_same(const std::vector<nn::NamedValues>& written_out, const std::vector<nn::NamedValues>& built_in) {
  ASSERT_EQ(written_out.size(), built_in.size());
  for (size_t i = 0; i < built_in.size(); ++i) {
    EXPECT_EQ(written_out[i].name, built_in[i].name);
    EXPECT_EQ(written_out[i].shape, built_in[i].shape) << built_in[i].name;
    EXPECT_TRUE(written_out[i].values == built_in[i].values) << built_in[i].name;
  }
}

TEST(LayeredTraining, LeNetEndsInTheBitsOfTheBuiltInWithItsMemory) {
  const Training training{.initialization = {.seed = 7}, .batch = 16};
  const auto written_out = testing::test_device(), built_in = testing::test_device();
  expect_same(trained_on(*written_out, model_of("lenet_layers_1cpu.yaml"), training),
              trained_on(*built_in, find_model("lenet"), training));
  // Where oneDNN has AMX, the peak is in the linear layers, while the built-in model still holds their input twice.
  const int64_t peak = built_in->allocator().peak_bytes();
  EXPECT_LE(written_out->allocator().peak_bytes(), peak)
      << "pools are within convolutions, whose outputs have no memory";
  EXPECT_GT(written_out->allocator().peak_bytes(), peak - 16 * 800 * 4 - 1);
}

TEST(LayeredTraining, ResNet18EndsInTheBitsOfTheBuiltIn) {
  expect_same(trained(model_of("resnet18_layers_1cpu.yaml"),
                      {.initialization = {.seed = 7, .weights = nn::Initializer::normal(0.01)}}),
              trained(find_model("resnet18"), {.initialization = {.seed = 7}}));
}

/// The built-in PyramidNet registers norms before convolutions, so its parameters have other numbers and other initial
/// values.
TEST(LayeredTraining, PyramidNetEndsInTheBitsOfTheBuiltInFromTheSameWeights) {
  const ModelSpec built_in = model_of("pyramidnet_small_1cpu.yaml");
  const auto by_name = [](std::vector<nn::NamedValues> state) {
    std::ranges::sort(state, {}, &nn::NamedValues::name);
    return state;
  };
  Training training{.initialization = {.seed = 7}, .image = {3, 32, 32}, .steps = 0};
  training.start = trained(built_in, training);
  training.steps = 3;
  expect_same(by_name(trained(model_of("pyramidnet_layers_1cpu.yaml"), training)),
              by_name(trained(built_in, training)));
}

TEST(LayeredTraining, ALayerMayBeginAsItSays) {
  const auto spec = [](const std::string& init) {
    ModelSpec model;
    const ConfigSession session(
        parse_config("model: {layers: [flatten, linear: {features: classes, init: " + init + "}]}\n", "a.yaml"),
        [&](ConfigReader& reader) { model = read_model(reader); });
    return model;
  };
  const auto weight_of = [&](const std::string& init) {
    const auto device = testing::test_device();
    const auto model = spec(init).build({.device = *device}, {.image = {1, 28, 28}, .classes = 10});
    model->place(*device, {});
    return nn::state_dict(*model).front().values;
  };
  const KeyedRandom random(0, RandomPurpose::initialize, 0, 0);
  using Kind = nn::Initializer::Kind;
  const Shape shape = {10, 784};
  EXPECT_EQ(weight_of("default"), nn::initial_values(nn::Initializer::by_fan_in(784), shape, random));
  EXPECT_EQ(weight_of("{normal: 0.5}"), nn::initial_values(nn::Initializer::normal(0.5), shape, random));
  EXPECT_EQ(weight_of("xavier_uniform"), nn::initial_values({Kind::xavier_uniform, 0}, shape, random));
  EXPECT_EQ(weight_of("kaiming_normal"), nn::initial_values({Kind::kaiming_normal, 0}, shape, random));
  EXPECT_EQ(weight_of("lecun_normal"), nn::initial_values({Kind::lecun_normal, 0}, shape, random));
}

}  // namespace
}  // namespace dptrain::models
