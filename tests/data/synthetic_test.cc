#include "data/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/sha256.h"

namespace dptrain {
namespace {

std::string hash(const LabelledBytes& data) {
  Sha256 sha;
  sha.update(std::as_bytes(std::span(data.pixels)));
  return sha.hex_digest();
}

std::vector<uint8_t> sample(const LabelledBytes& data, int64_t index) {
  const int64_t elements = data.image_shape.elements();
  const auto first = data.pixels.begin() + index * elements;
  return {first, first + elements};
}

// The arithmetic is on integers, so every machine gives these bytes.
TEST(Synthetic, BytesAreGolden) {
  EXPECT_EQ(hash(make_synthetic({.seed = 9, .samples = 100})),
            "a681ba7f9e636604bf23c5e31d8d4fa557fa0f0e1a17ed437b05115a3639d5ca");
}

TEST(Synthetic, DependsOnTheSeedAlone) {
  const std::string bytes = hash(make_synthetic({.seed = 1}));
  EXPECT_EQ(hash(make_synthetic({.seed = 1})), bytes);
  EXPECT_NE(hash(make_synthetic({.seed = 2})), bytes);
}

TEST(Synthetic, SamplesDontDependOnHowManyAreMade) {
  const LabelledBytes few = make_synthetic({.samples = 13});
  const LabelledBytes many = make_synthetic({.samples = 100});
  EXPECT_EQ(sample(few, 12), sample(many, 12));
}

TEST(Synthetic, TrainAndTestSamplesAreAllDifferent) {
  std::set<std::string> seen;
  for (const DatasetSplit split : {DatasetSplit::train, DatasetSplit::test}) {
    const LabelledBytes data = make_synthetic({.samples = 300, .split = split});
    for (int64_t i = 0; i < 300; ++i) {
      const std::vector<uint8_t> bytes = sample(data, i);
      seen.emplace(bytes.begin(), bytes.end());
    }
  }
  EXPECT_EQ(seen.size(), 600u);
}

TEST(Synthetic, ClassesTakeTurns) {
  const LabelledBytes data = make_synthetic({.samples = 8, .classes = 3});
  EXPECT_EQ(data.labels, (std::vector<int32_t>{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(data.classes, 3);
}

TEST(Synthetic, TakesAnyShape) {
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{3, 32, 32}, Shape{2, 1, 7}, Shape{5, 3, 2}}) {
    const LabelledBytes data = make_synthetic({.samples = 4, .image_shape = shape});
    EXPECT_EQ(static_cast<int64_t>(data.pixels.size()), 4 * shape.elements());
  }
}

/// The class whose mean training image is nearest to this image.
int32_t nearest_class(const std::vector<std::vector<double>>& means, const std::vector<uint8_t>& image) {
  std::vector<double> distances;
  for (const auto& mean : means) {
    double sum = 0;
    for (size_t i = 0; i < image.size(); ++i) sum += (image[i] - mean[i]) * (image[i] - mean[i]);
    distances.push_back(sum);
  }
  return static_cast<int32_t>(std::min_element(distances.begin(), distances.end()) - distances.begin());
}

TEST(Synthetic, TestImagesHaveTheClassesOfTheTrainingImages) {
  const LabelledBytes train = make_synthetic({.samples = 1000});
  const LabelledBytes test = make_synthetic({.samples = 200, .split = DatasetSplit::test});
  std::vector<std::vector<double>> means(10, std::vector<double>(784));
  for (int64_t i = 0; i < 1000; ++i)
    for (size_t p = 0; p < 784; ++p)
      means[static_cast<size_t>(train.labels[static_cast<size_t>(i)])][p] += sample(train, i)[p] / 100.0;
  int right = 0;
  for (int64_t i = 0; i < 200; ++i)
    if (nearest_class(means, sample(test, i)) == test.labels[static_cast<size_t>(i)]) ++right;
  EXPECT_GT(right, 180);  // chance: 20
}

}  // namespace
}  // namespace dptrain
