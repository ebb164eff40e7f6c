// The models by name: the state in checkpoints has PyTorch's names, shapes and order, and a model has the same initial
// values wherever it is placed.

#include <cmath>
#include <map>

#include "config/config_document.h"
#include "models/model_registry.h"
#include "models/state_names.h"
#include "nn/named_values.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

using namespace testing;

std::unique_ptr<nn::Model> placed(const std::string& name, Device& device,
                                  const nn::InitializationOptions& options = {},
                                  const models::ModelInput& input = {.image = {1, 28, 28}, .classes = 10}) {
  auto model = models::find_model(name).build({.device = device}, input);
  model->place(device, options);
  return model;
}

/// The image shape for which the model's reference was made.
models::ModelInput reference_input(const std::string& name) {
  return {.image = name == "pyramidnet" ? Shape{3, 32, 32} : Shape{1, 28, 28}, .classes = 10};
}

class Models : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Device> device_ = test_device();
};

TEST_P(Models, HaveTheStateOfPyTorchs) {
  expect_state_names(*placed(GetParam(), *device_, {}, reference_input(GetParam())), GetParam());
}

TEST_P(Models, BeginWithTheSameValuesEverywhere) {
  const auto expected = nn::state_dict(*placed(GetParam(), *device_, {.seed = 4, .weights = {}}));
  const auto elsewhere = test_device(1, 7, 3);
  const auto same = nn::state_dict(*placed(GetParam(), *elsewhere, {.seed = 4, .weights = {}}));
  const auto other = nn::state_dict(*placed(GetParam(), *device_, {.seed = 5, .weights = {}}));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same[i].values == expected[i].values) << expected[i].name;
    if (expected[i].shape.rank() > 1) {
      EXPECT_FALSE(other[i].values == expected[i].values) << expected[i].name;
    }
  }
}

TEST_P(Models, MakeLogitsOfImages) {
  const auto model = placed(GetParam(), *device_, {}, {.image = {3, 32, 28}, .classes = 7});
  Tape tape(Tape::Mode::forget);
  const Variable logits = model->forward(tape.input(Tensor::zeros(*device_, {2, 3, 32, 28})), {.tape = tape});
  EXPECT_EQ(logits.value().shape(), (Shape{2, 7}));
}

INSTANTIATE_TEST_SUITE_P(ByName, Models, ::testing::Values("lenet", "resnet18", "pyramidnet"),
                         [](const auto& test) { return std::string(test.param); });

/// Mean and standard deviation of a tensor of the state.
std::pair<double, double> moments_of(const nn::Model& model, const std::string& name) {
  for (const auto& tensor : nn::state_dict(model)) {
    if (tensor.name != name) continue;
    double mean = 0, square = 0;
    for (const float value : tensor.values) mean += value, square += double{value} * value;
    const auto count = static_cast<double>(tensor.values.size());
    return {mean / count, std::sqrt(square / count - std::pow(mean / count, 2))};
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

TEST(LeNet, BeginsAsPyTorchsLayersDo) {
  const auto device = test_device();
  const auto model = placed("lenet", *device);
  // The standard deviation of U(-1/sqrt(fan_in), 1/sqrt(fan_in)) is its bound over sqrt(3).
  for (const auto& [name, fan_in] : std::map<std::string, double>{{"conv2.weight", 20 * 25}, {"fc1.weight", 800}}) {
    const auto [mean, deviation] = moments_of(*model, name);
    const double expected = 1 / std::sqrt(3 * fan_in);
    EXPECT_NEAR(mean, 0, 0.02 * expected) << name;
    EXPECT_NEAR(deviation, expected, 0.01 * expected) << name;
  }
}

TEST(ResNet18, BeginsAsDiveIntoDeepLearningDoes) {
  const auto device = test_device();
  const auto model = placed("resnet18", *device);
  for (const char* name : {"layer1.0.conv1.weight", "layer4.0.downsample.weight", "layer4.1.conv2.weight"}) {
    const auto [mean, deviation] = moments_of(*model, name);
    EXPECT_NEAR(mean, 0, 3e-4) << name;
    EXPECT_NEAR(deviation, 0.01, 1e-4) << name;
  }
  EXPECT_EQ(moments_of(*model, "layer2.0.bn1.weight"), std::pair(1.0, 0.0));
  EXPECT_EQ(moments_of(*model, "bn1.running_var"), std::pair(1.0, 0.0));
  EXPECT_EQ(moments_of(*model, "bn1.running_mean"), std::pair(0.0, 0.0));
}

TEST(LeNet, NeedsImagesThatItsFiltersFit) {
  const auto device = test_device();
  EXPECT_NO_THROW(placed("lenet", *device, {}, {.image = {1, 16, 16}}));
  for (const Shape& image : {Shape{1, 15, 28}, Shape{1, 28, 15}, Shape{1, 4, 4}})
    expect_error(ExitCode::config, {"model: needs images of at least 16 x 16, got"},
                 [&] { placed("lenet", *device, {}, {.image = image}); });
}

TEST(ModelRegistry, NamesWhatIsNear) {
  expect_error(ExitCode::config, {"model: expected a known model, got 'lenett'; did you mean 'lenet'?"},
               [] { models::find_model("lenett"); });
  expect_error(ExitCode::config, {"choose one of: lenet, resnet18, pyramidnet"},
               [] { models::find_model("transformer"); });
}

TEST(ModelRegistry, SaysWhereAModelWasChosenThatCannotTakeTheData) {
  const auto device = test_device();
  const auto refused = [&](const std::string& text, const models::ModelInput& input, std::string_view words) {
    models::ModelSpec spec;
    const ConfigSession session(parse_config("seed: 1\n" + text, "a.yaml"), [&](ConfigReader& config) {
      config.integer("seed", 0, {});
      spec = models::read_model(config);
    });
    expect_error(ExitCode::config, {words}, [&] { spec.build({.device = *device}, input); });
  };
  const models::ModelInput text{.text = models::TextSizes{.vocabulary = 60, .sequence = 20}};
  refused("model: lenet\n", {.image = {1, 8, 8}},
          "a.yaml:2:1: model lenet: needs images of at least 16 x 16, got 8 x 8; choose another data set or shape");
  refused("model: {name: pyramidnet}\n", {.image = {1, 8, 16}}, "a.yaml:2:1: model pyramidnet: its last pool needs");
  refused("model: resnet18\n", text, "a.yaml:2:1: model resnet18: needs a data set of images, got text");
  refused("model: {layers: [flatten]}\n", text, "a.yaml:2:1: model layers: needs a data set of images, got text");
  refused("model: bert\n", {.image = {1, 8, 8}}, "a.yaml:2:1: model bert: needs a data set of text, got images");
}

TEST(ModelRegistry, ReadsTheConfiguration) {
  const auto read = [](const std::string& text) {
    std::string name;
    const ConfigSession session(parse_config(text, "a.yaml"),
                                [&](ConfigReader& config) { name = models::read_model(config).name; });
    return name;
  };
  EXPECT_EQ(read("model: resnet18\n"), "resnet18");
  EXPECT_EQ(read("model: {name: lenet}\n"), "lenet");
  EXPECT_EQ(read("model: {layers: [flatten]}\n"), "layers");
  EXPECT_EQ(read("model: {name: layers, layers: [flatten]}\n"), "layers");
  expect_error(ExitCode::config, {"a.yaml:1:1: model.layers: required, but absent"}, [&] { read("model: layers\n"); });
  expect_error(ExitCode::config, {"a.yaml:1", "resnet81", "did you mean"}, [&] { read("model: resnet81\n"); });
}

}  // namespace
}  // namespace dptrain
