#include "data/augmentation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace dptrain {
namespace {

using ops::Augmentation;
using ops::AugmentationKind;

/// The largest side that an image may have.
constexpr int64_t kMostPixels = 4096;

Augmentation read_random_crop(ConfigReader& options) {
  const int64_t padding = options.integer("padding", 4, {.min = 1, .max = kMostPixels, .help = "zeros at each side"});
  return {.kind = AugmentationKind::random_crop, .pixels = static_cast<int32_t>(padding)};
}

Augmentation read_flip(ConfigReader&) { return {.kind = AugmentationKind::flip}; }

Augmentation read_cutout(ConfigReader& options) {
  const auto size = options.optional_integer(
      "size", {.min = 1, .max = kMostPixels, .help = "the square's side; by default half the image's shorter one"});
  return {.kind = AugmentationKind::cutout, .pixels = static_cast<int32_t>(size.value_or(0))};
}

/// A value in units of 1/65536.
uint32_t fraction(double value) { return static_cast<uint32_t>(std::lround(value * 0x1p16)); }

/// Reads two numbers within `rule`, the second no less than the first; `otherwise` is the default.
std::array<double, 2> read_range(ConfigReader& options, const char* key, std::array<double, 2> otherwise,
                                 const NumberRule& rule) {
  const auto values = options.numbers(key, {otherwise[0], otherwise[1]}, rule);
  if (values.size() != 2 || values[0] > values[1]) {
    options.mistake(key, "expected two numbers, the smaller one first", fmt::format("[{}]", fmt::join(values, ", ")),
                    fmt::format("write for instance [{:.4g}, {:.4g}]", otherwise[0], otherwise[1]));
    return otherwise;
  }
  return {values[0], values[1]};
}

Augmentation read_random_resized_crop(ConfigReader& options) {
  const auto area = read_range(options, "scale", {0.08, 1},
                               {.min = 0x1p-12, .max = 1, .help = "smallest and largest share of the image's area"});
  const auto ratio = read_range(
      options, "ratio", {3.0 / 4, 4.0 / 3},
      {.min = 1.0 / 16, .max = 16, .help = "smallest and largest ratio of the window's width to its height"});
  return {.kind = AugmentationKind::random_resized_crop,
          .window = {.least_area = fraction(area[0]),
                     .most_area = fraction(area[1]),
                     .least_ratio = fraction(ratio[0]),
                     .doublings = fraction(std::log2(ratio[1] / ratio[0]))}};
}

/// An augmentation that a configuration may name.
struct AugmentationRow {
  const char* name;
  Augmentation (*read)(ConfigReader& options);
  const char* help;
  const char* shorthand;
};

constexpr std::array kAugmentations = {
    AugmentationRow{"random_crop", read_random_crop, "pads with zeros and takes a window of the image's size anywhere",
                    "padding"},
    AugmentationRow{"random_resized_crop", read_random_resized_crop,
                    "takes a window of any size anywhere and scales it to the image's", ""},
    AugmentationRow{"flip", read_flip, "mirrors left and right, with probability 1/2", ""},
    AugmentationRow{"cutout", read_cutout, "zeroes a square centered anywhere", "size"},
};

}  // namespace

ops::Augmentations read_augmentations(ConfigReader& config, const DatasetSpec& dataset, uint64_t seed) {
  ops::Augmentations augmentations{.seed = seed};
  const auto add = [&](const AugmentationRow& row, ConfigReader& options) {
    const Augmentation augmentation = row.read(options);
    const std::span so_far(augmentations.list.data(), augmentations.count);
    if (std::ranges::find(so_far, augmentation.kind, &Augmentation::kind) != so_far.end())
      config.mistake("augment", "expected each augmentation at most once", fmt::format("{} twice", row.name),
                     "leave one of them out");
    else
      augmentations.list[augmentations.count++] = augmentation;
  };
  std::vector<ConfigChoice> choices;
  for (const AugmentationRow& row : kAugmentations)
    choices.push_back({row.name, row.help, [&](ConfigReader& options) { add(row, options); }, row.shorthand});
  config.named_list("augment", choices,
                    {.definition = "augmentations",
                     .may_be_empty = true,
                     .help = "changes to training images, in order, drawn anew each epoch"});
  if (!config.describing() && !augmentations.empty() && !dataset.has_images)
    config.mistake("augment", fmt::format("data set {} has no images to augment", dataset.name),
                   fmt::format("{} augmentation{}", augmentations.count, augmentations.count == 1 ? "" : "s"),
                   "leave augment out");
  return augmentations;
}

}  // namespace dptrain
