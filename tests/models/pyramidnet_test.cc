// PyramidNet's widths, options and images; models_test.cc and golden_test.cc compare names and values.

#include "models/pyramidnet.h"

#include <cmath>

#include "config/config_document.h"
#include "nn/named_values.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain::models {
namespace {

using testing::expect_error;

std::vector<nn::NamedValues> state_of(const PyramidNetOptions& pyramid, const ModelInput& input) {
  const auto device = testing::test_device();
  const auto model = build_pyramidnet(pyramid, {.device = *device}, input);
  model->place(*device, {});
  return nn::state_dict(*model);
}

/// The shape of the logits of two images, after a backward pass.
Shape logits_of(const Shape& image) {
  const auto device = testing::test_device();
  const auto model =
      build_pyramidnet({.alpha = 6, .depth = 1, .blocks = 1}, {.device = *device}, {.image = image, .classes = 7});
  model->place(*device, {});
  Tape tape(Tape::Mode::record);
  const Variable logits = model->forward(tape.input(Tensor::zeros(*device, {2, image[0], image[1], image[2]})),
                                         {.tape = tape, .training = true});
  tape.backward(logits, logits.value());
  return logits.value().shape();
}

TEST(PyramidNet, WidensByWhatPythonRoundsTo) {
  using Widths = std::vector<int64_t>;
  EXPECT_EQ(pyramidnet_widths({.alpha = 48, .depth = 3, .blocks = 3}),
            (Widths{16, 21, 27, 32, 37, 43, 48, 53, 59, 64}));
  // 16.5 and 18.5 are rounded to even.
  EXPECT_EQ(pyramidnet_widths({.alpha = 3, .depth = 2, .blocks = 2}), (Widths{16, 16, 17, 18, 18, 18, 19}));
  // Three sixths, added one by one, are slightly more than a half.
  EXPECT_EQ(pyramidnet_widths({.alpha = 1, .depth = 2, .blocks = 1}), (Widths{16, 16, 16, 17}));
  // With fewer blocks than the depth the last width isn't reached.
  EXPECT_EQ(pyramidnet_widths({}).size(), 52u);
  EXPECT_EQ(pyramidnet_widths({}).back(), 271);
  EXPECT_EQ(pyramidnet_widths({.alpha = 0, .blocks = 1}), (Widths{16, 16, 16, 16}));
}

TEST(PyramidNet, FiltersBeginByTheirFanOut) {
  for (const auto& tensor : state_of({}, {.image = {3, 32, 32}})) {
    if (tensor.name != "layer1.0.conv1.weight" && tensor.name != "layer3.16.conv1.weight") continue;
    double square = 0;
    for (const float value : tensor.values) square += double{value} * value;
    const double fan_out = static_cast<double>(tensor.shape[0]) * 9, count = static_cast<double>(tensor.values.size());
    // A sample's standard deviation has a standard deviation of its own: the former over the root of twice the sample's
    // size.
    EXPECT_NEAR(std::sqrt(square / count), std::sqrt(2 / fan_out), 4 * std::sqrt(1 / fan_out / count)) << tensor.name;
  }
}

TEST(PyramidNet, TakesImagesOfAnySideAndChannels) {
  for (const Shape& image : {Shape{3, 32, 32}, Shape{1, 28, 28}, Shape{3, 33, 35}, Shape{3, 17, 17}, Shape{2, 1, 1},
                             Shape{3, 40, 32}, Shape{3, 60, 32}})
    EXPECT_EQ(logits_of(image), (Shape{2, 7})) << image.text();
}

TEST(PyramidNet, NeedsOneSquareToAverage) {
  expect_error(ExitCode::config,
               {"model: its last pool needs images that are at least as high as wide, and less than twice as high, "
                "got 8 x 10, made from 32 x 40; choose another data set or shape, for instance a square one"},
               [] {
                 logits_of({3, 32, 40});
               });
  expect_error(ExitCode::config, {"got 16 x 8, made from 64 x 32"}, [] { logits_of({3, 64, 32}); });
}

TEST(PyramidNet, ReadsItsOptions) {
  const auto read = [](const std::string& options) {
    PyramidNetOptions pyramid;
    const ConfigSession session(
        parse_config("model:\n  name: pyramidnet\n" + options, "a.yaml"), [&](ConfigReader& config) {
          config.named("model",
                       std::vector<ConfigChoice>{
                           {"pyramidnet", "", [&](ConfigReader& reader) { pyramid = read_pyramidnet(reader); }}},
                       std::nullopt);
        });
    return pyramid;
  };
  EXPECT_EQ(read("").alpha, 270);
  EXPECT_EQ(read("").depth, 18);
  EXPECT_EQ(read("").blocks, 17);
  EXPECT_EQ(read("  alpha: 48\n  depth: 3\n  blocks: 4\n").depth, 3);
  expect_error(ExitCode::config, {"a.yaml:3:3: model.alpha: expected an integer from 0 to 65536, got -1"},
               [&] { read("  alpha: -1\n"); });
  expect_error(ExitCode::config, {"a.yaml:3:3: model.depth: expected an integer from 1 to 1000, got 0"},
               [&] { read("  depth: 0\n"); });
  expect_error(ExitCode::config, {"a.yaml:3:3: model.blocks: expected an integer from 1 to 1000, got 'many'"},
               [&] { read("  blocks: many\n"); });
  expect_error(ExitCode::config, {"a.yaml:3:3: model.block: unknown key, did you mean 'blocks'?"},
               [&] { read("  block: 3\n"); });
  expect_error(ExitCode::config,
               {"a.yaml:3:3: model.alpha: expected blocks of at most 65536 channels, got 16 + 60000 * 4 / 2 = 120016; "
                "choose a smaller alpha or fewer blocks, or more depth"},
               [&] { read("  alpha: 60000\n  depth: 2\n  blocks: 4\n"); });
}

}  // namespace
}  // namespace dptrain::models
