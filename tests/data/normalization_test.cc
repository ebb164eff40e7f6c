#include "data/normalization.h"

#include <gtest/gtest.h>

#include "config/config_document.h"
#include "data/byte_images.h"
#include "data/refusal.h"

namespace dptrain {
namespace {

using testing::expect_refusal;

Normalization read_as(const std::string& text, int64_t channels) {
  Normalization normalization;
  const ConfigNode root = parse_config(text, "a.yaml");
  ConfigSession(root, [&](ConfigReader& config) { normalization = read_normalization(config, channels); });
  return normalization;
}

std::vector<float> decoded(const Normalization& normalization, const Shape& shape, std::vector<uint8_t> pixels) {
  const ByteImages images({.image_shape = shape, .classes = 2, .pixels = std::move(pixels), .labels = {0}},
                          normalization);
  std::vector<float> out(static_cast<size_t>(shape.elements()));
  images.image(0, out);
  return out;
}

TEST(Normalization, NoneIsPixelsOver255) {
  EXPECT_EQ(decoded(read_as("normalize: none", 1), {1, 1, 4}, {0, 1, 51, 255}),
            (std::vector<float>{0.0f, 1.0f / 255.0f, 0.2f, 1.0f}));
  EXPECT_EQ(decoded({}, {1, 1, 1}, {77}), std::vector<float>{77 / 255.0f});
}

TEST(Normalization, MeanAndStdOfAllChannels) {
  const Normalization normalization = read_as("normalize: {mean: 0.1307, std: 0.3081}", 2);
  EXPECT_EQ(decoded(normalization, {2, 1, 1}, {0, 255}),
            (std::vector<float>{(0.0f - 0.1307f) / 0.3081f, (1.0f - 0.1307f) / 0.3081f}));
}

TEST(Normalization, MeanAndStdOfEachChannel) {
  const Normalization normalization = read_as("normalize: {mean: [0, 0.5, 1], std: [1, 0.5, 2]}", 3);
  EXPECT_EQ(decoded(normalization, {3, 1, 2}, {0, 255, 0, 255, 0, 255}),
            (std::vector<float>{0.0f, 1.0f, -1.0f, 1.0f, -0.5f, 0.0f}));
}

TEST(Normalization, MistakesAre78) {
  const auto expect_mistake = [](const std::string& text, const std::vector<std::string>& words) {
    expect_refusal(ExitCode::config, words, [&] { read_as(text, 3); });
  };
  expect_mistake("normalize: {mean: [0.5, 0.5]}", {"a.yaml:1", "normalize.mean", "expected 1 or 3 numbers, got 2"});
  expect_mistake("normalize: {std: 0}", {"normalize.std", "from 1.0e-30"});
  expect_mistake("normalize: {std: 1e-50}", {"normalize.std", "from 1.0e-30"});
  expect_mistake("normalize: {means: 0}", {"means", "mean"});
  expect_mistake("normalize: imagenet", {"normalize", "none", "imagenet"});
}

}  // namespace
}  // namespace dptrain
