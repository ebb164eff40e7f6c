#include "data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "base/random.h"
#include "data/dataset_options.h"
#include "data/synthetic_text.h"
#include "device/host_machine.h"

namespace dptrain {
namespace {

/// The second part of the random numbers' key. It is part of every result: never renumber.
enum class Draw : uint32_t { pattern = 0, train_sample = 1, test_sample = 2 };

KeyedRandom keyed(uint64_t seed, Draw draw, int64_t subject) {
  return {seed, RandomPurpose::synthetic, static_cast<uint32_t>(draw), static_cast<uint32_t>(subject)};
}

// All arithmetic is on integers, so that no compiler or library can round it differently.
constexpr int64_t kCell = 4;       ///< pixels from one knot of a pattern to the next
constexpr int64_t kMostShift = 2;  ///< pixels
constexpr int64_t kNoise = 128;    ///< grey values from the lowest to the highest

/// [C, H, W]: grey values drawn at the knots of a coarse grid, half of them black, with bilinear interpolation between.
std::vector<uint8_t> make_pattern(uint64_t seed, int64_t label, const Shape& shape) {
  const int64_t height = shape[1], width = shape[2];
  const int64_t grid_height = height / kCell + 2, grid_width = width / kCell + 2;
  const KeyedRandom random = keyed(seed, Draw::pattern, label);
  const auto knot = [&](int64_t c, int64_t y, int64_t x) {
    const uint32_t byte = random.word(static_cast<uint64_t>((c * grid_height + y) * grid_width + x)) >> 24;
    return int64_t{byte < 128 ? 0 : 2 * (byte - 128)};
  };
  std::vector<uint8_t> pattern;
  pattern.reserve(static_cast<size_t>(shape.elements()));
  for (int64_t c = 0; c < shape[0]; ++c)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const int64_t gy = y / kCell, gx = x / kCell, wy = y % kCell, wx = x % kCell;
        const int64_t upper = knot(c, gy, gx) * (kCell - wx) + knot(c, gy, gx + 1) * wx;
        const int64_t lower = knot(c, gy + 1, gx) * (kCell - wx) + knot(c, gy + 1, gx + 1) * wx;
        pattern.push_back(static_cast<uint8_t>((upper * (kCell - wy) + lower * wy) / (kCell * kCell)));
      }
  return pattern;
}

/// Writes one sample of the class of `pattern` to `out`.
void make_sample(const KeyedRandom& random, const std::vector<uint8_t>& pattern, const Shape& shape, uint8_t* out) {
  const int64_t height = shape[1], width = shape[2];
  const std::array<uint32_t, 4> first = random.words(0);
  // Shifts are from 0 to 2 * kMostShift and wrap around the edges, which is the same as -kMostShift to kMostShift.
  const int64_t down = first[0] % (2 * kMostShift + 1) % height;
  const int64_t right = first[1] % (2 * kMostShift + 1) % width;
  const int64_t contrast = 128 + first[2] % 128;  // over 256: a half to one

  // Each block of random words is the noise of 16 pixels, one byte each; block 0 is used above.
  std::array<uint32_t, 4> noise{};
  int64_t pixel = 0;
  for (int64_t c = 0; c < shape[0]; ++c)
    for (int64_t y = 0; y < height; ++y) {
      const uint8_t* row = pattern.data() + (c * height + (y + down) % height) * width;
      for (int64_t x = 0; x < width; ++x, ++pixel) {
        if (pixel % 16 == 0) noise = random.words(static_cast<uint64_t>(1 + pixel / 16));
        const int64_t byte = noise[static_cast<size_t>(pixel / 4 % 4)] >> (8 * (pixel % 4)) & 0xff;
        const int64_t signal = row[(x + right) % width] * contrast / 256;
        out[pixel] = static_cast<uint8_t>(std::clamp<int64_t>(signal + (byte - 128) * kNoise / 256, 0, 255));
      }
    }
}

/// The bytes that a data set of `samples` needs while it is made. They are doubles because a user's numbers may
/// overflow integers.
double needed_bytes(double samples, int64_t classes, const Shape& shape) {
  const double images = samples + static_cast<double>(classes);
  return images * static_cast<double>(shape[0]) * static_cast<double>(shape[1]) * static_cast<double>(shape[2]);
}

Shape read_shape(ConfigReader& config) {
  const std::vector<int64_t> dimensions = config.integers(
      "shape", std::vector<int64_t>{1, 28, 28}, {.min = 1, .max = 4096, .help = "channels, height, width of an image"});
  if (dimensions.size() == 3) return Shape(dimensions);
  config.mistake("shape", "expected [channels, height, width]", fmt::format("{} numbers", dimensions.size()),
                 "write shape: [1, 28, 28]");
  return {1, 28, 28};
}

DatasetSpec read_images(ConfigReader& config, uint64_t seed, int64_t samples, int64_t test_samples) {
  SyntheticOptions train{.seed = seed};
  train.classes = config.integer("classes", 10, {.min = 2, .max = 10000, .help = "number of classes"});
  train.image_shape = read_shape(config);
  const DatasetOptions options = read_dataset_options(config, train.image_shape[0]);
  train.samples = limited(samples, options.limit);
  SyntheticOptions test = train;
  test.split = DatasetSplit::test;
  test.samples = limited(test_samples, options.test_limit);

  const double bytes =
      needed_bytes(static_cast<double>(train.samples + test.samples), train.classes, train.image_shape);
  if (bytes > static_cast<double>(host_memory_bytes()))
    config.mistake(
        "samples",
        fmt::format("expected images that fit into the {} bytes of this machine's memory", host_memory_bytes()),
        fmt::format("{:.0f} bytes", bytes), "ask for fewer samples or smaller images");

  DatasetSpec spec;
  spec.order = options.order;
  spec.open = [train, test, normalization = options.normalization] {
    return Datasets{.train = std::make_shared<ByteImages>(make_synthetic(train), normalization),
                    .test = std::make_shared<ByteImages>(make_synthetic(test), normalization)};
  };
  return spec;
}

}  // namespace

LabelledBytes make_synthetic(const SyntheticOptions& options) {
  const int64_t used_classes = std::min(options.classes, options.samples);
  std::vector<std::vector<uint8_t>> patterns;
  for (int64_t label = 0; label < used_classes; ++label)
    patterns.push_back(make_pattern(options.seed, label, options.image_shape));

  const int64_t elements = options.image_shape.elements();
  LabelledBytes data{.image_shape = options.image_shape,
                     .classes = options.classes,
                     .pixels = std::vector<uint8_t>(static_cast<size_t>(options.samples * elements))};
  data.labels.reserve(static_cast<size_t>(options.samples));
  const Draw draw = options.split == DatasetSplit::train ? Draw::train_sample : Draw::test_sample;
  for (int64_t i = 0; i < options.samples; ++i) {
    const int64_t label = i % options.classes;
    make_sample(keyed(options.seed, draw, i), patterns[static_cast<size_t>(label)], options.image_shape,
                data.pixels.data() + i * elements);
    data.labels.push_back(static_cast<int32_t>(label));
  }
  return data;
}

DatasetSpec read_synthetic(ConfigReader& config, const DatasetRequest& request) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t samples = config.integer("samples", 1000, {.min = 1, .max = kMost, .help = "training samples"});
  const int64_t test_samples =
      config.integer("test_samples", std::max<int64_t>(1, samples / 5),
                     {.min = 1, .max = kMost, .help = "test samples; by default a fifth of the training samples"});
  config.default_varies("test_samples");
  if (request.text) return synthetic_text(config, request, {.train = samples, .test = test_samples});
  // The schema describes the options of both kinds.
  if (config.describing()) read_full_lines(config);
  return read_images(config, request.seed, samples, test_samples);
}

}  // namespace dptrain
