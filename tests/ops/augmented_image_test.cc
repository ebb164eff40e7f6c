// What augmentations make of images small enough to write down. Only sample, epoch, seed and kind decide the draws.
#include "ops/augmented_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace dptrain::ops {
namespace augmented_image_test {

using Pixels = std::vector<int>;

constexpr Augmentation kFlip = {.kind = AugmentationKind::flip};
constexpr Augmentation random_crop(int padding) { return {AugmentationKind::random_crop, padding}; }
constexpr Augmentation cutout(int size) { return {AugmentationKind::cutout, size}; }

Augmentations list_of(const std::vector<Augmentation>& wanted, uint64_t seed = 0) {
  Augmentations augmentations{.seed = seed, .count = static_cast<uint32_t>(wanted.size())};
  std::ranges::copy(wanted, augmentations.list.begin());
  return augmentations;
}

/// An augmented image whose pixels are 1, 2, 3, ... in reading order; 0 is a pixel from outside of the image.
Pixels augmented(const Augmentations& augmentations, ImageSize size, uint32_t sample, uint32_t epoch = 1) {
  const AugmentedImage image(augmentations, size, epoch, sample);
  Pixels pixels;
  for (int y = 0; y < size.height; ++y)
    for (int x = 0; x < size.width; ++x) pixels.push_back(image.source(y, x).at[0] + 1);
  return pixels;
}

/// How often each result occurs in the first `samples` samples.
std::map<Pixels, int> results(const Augmentations& augmentations, ImageSize size, uint32_t samples) {
  std::map<Pixels, int> counts;
  for (uint32_t sample = 0; sample < samples; ++sample) ++counts[augmented(augmentations, size, sample)];
  return counts;
}

/// Expects each of `expected` to occur in `samples` results about as often as its share of all weights, and no other
/// result.
void expect_shares(const std::map<Pixels, int>& found, const std::map<Pixels, int>& weights) {
  const auto sum = [](const std::map<Pixels, int>& counts) {
    return std::accumulate(counts.begin(), counts.end(), 0.0, [](double s, const auto& row) { return s + row.second; });
  };
  const double samples = sum(found), all = sum(weights);
  for (const auto& [pixels, count] : found) EXPECT_TRUE(weights.contains(pixels)) << ::testing::PrintToString(pixels);
  for (const auto& [pixels, weight] : weights) {
    const double share = weight / all, deviation = std::sqrt(samples * share * (1 - share));
    const int count = found.contains(pixels) ? found.at(pixels) : 0;
    // The draws are fixed; fair ones are within four deviations except once in 16,000 times.
    EXPECT_NEAR(count, samples * share, 4 * deviation) << ::testing::PrintToString(pixels);
  }
}

TEST(AugmentedImage, WithoutAugmentationsIsTheImage) {
  EXPECT_EQ(results({}, {2, 3}, 20), (std::map<Pixels, int>{{{1, 2, 3, 4, 5, 6}, 20}}));
}

TEST(AugmentedImage, AFlipMirrorsHalfOfTheImages) {
  expect_shares(results(list_of({kFlip}), {2, 3}, 2000), {{{1, 2, 3, 4, 5, 6}, 1}, {{3, 2, 1, 6, 5, 4}, 1}});
}

TEST(AugmentedImage, ARandomCropIsAnyWindowOfThePaddedImage) {
  // The padded image is 0 0 0 0 / 0 1 2 0 / 0 3 4 0 / 0 0 0 0.
  expect_shares(results(list_of({random_crop(1)}), {2, 2}, 2000), {{{0, 0, 0, 1}, 1},
                                                                   {{0, 0, 1, 2}, 1},
                                                                   {{0, 0, 2, 0}, 1},
                                                                   {{0, 1, 0, 3}, 1},
                                                                   {{1, 2, 3, 4}, 1},
                                                                   {{2, 0, 4, 0}, 1},
                                                                   {{0, 3, 0, 0}, 1},
                                                                   {{3, 4, 0, 0}, 1},
                                                                   {{4, 0, 0, 0}, 1}});
}

TEST(AugmentedImage, ACutoutIsCenteredAnywhereAndEndsWhereTheImageDoes) {
  // A square of 2 pixels reaches from the pixel up and left of its center to the center.
  expect_shares(results(list_of({cutout(2)}), {2, 3}, 2000), {{{0, 2, 3, 4, 5, 6}, 1},
                                                              {{0, 0, 3, 4, 5, 6}, 1},
                                                              {{1, 0, 0, 4, 5, 6}, 1},
                                                              {{0, 2, 3, 0, 5, 6}, 1},
                                                              {{0, 0, 3, 0, 0, 6}, 1},
                                                              {{1, 0, 0, 4, 0, 0}, 1}});
}

TEST(AugmentedImage, ACutoutIsHalfTheShorterSideByDefault) {
  EXPECT_EQ(results(list_of({cutout(0)}), {5, 8}, 300), results(list_of({cutout(2)}), {5, 8}, 300));
  EXPECT_EQ(results(list_of({cutout(0)}), {32, 33}, 300), results(list_of({cutout(16)}), {32, 33}, 300));
}

TEST(AugmentedImage, AugmentationsAreAppliedInTheirOrder) {
  // An augmentation draws the same for a sample alone and with others; the expected result applies one after the other.
  constexpr ImageSize kSize = {6, 7};
  const auto then = [](const Pixels& first, const Pixels& second) {
    Pixels pixels;
    for (const int source : second) pixels.push_back(source == 0 ? 0 : first[static_cast<size_t>(source - 1)]);
    return pixels;
  };
  std::vector<Augmentation> order = {random_crop(2), kFlip, cutout(3)};
  const auto by_kind = [](const Augmentation& a, const Augmentation& b) { return a.kind < b.kind; };
  std::set<Pixels> different;
  do {
    for (uint32_t sample = 0; sample < 50; ++sample) {
      Pixels expected = augmented({}, kSize, sample);
      for (const Augmentation& next : order) expected = then(expected, augmented(list_of({next}), kSize, sample));
      const Pixels found = augmented(list_of(order), kSize, sample);
      EXPECT_EQ(found, expected) << "sample " << sample;
      different.insert(found);
    }
  } while (std::ranges::next_permutation(order, by_kind).found);
  EXPECT_GT(different.size(), 100u);
}

/// A scaled window averages pixels that earlier augmentations have moved, and later ones move its averages.
TEST(AugmentedImage, AWindowIsScaledWhereItStandsInTheOrder) {
  constexpr ImageSize kSize = {9, 12};
  using Bytes = std::vector<uint8_t>;
  const auto shown = [&](const std::vector<Augmentation>& list, const Bytes& original, uint32_t sample) {
    const AugmentedImage image(list_of(list), kSize, 1, sample);
    Bytes bytes;
    for (int y = 0; y < kSize.height; ++y)
      for (int x = 0; x < kSize.width; ++x) bytes.push_back(image.source(y, x).byte(original.data()));
    return bytes;
  };
  Bytes original;
  for (int i = 0; i < kSize.height * kSize.width; ++i) original.push_back(static_cast<uint8_t>(97 * i));
  std::vector<Augmentation> order = {
      random_crop(2),
      kFlip,
      cutout(3),
      {.kind = AugmentationKind::random_resized_crop,
       .window = {.least_area = 1 << 13, .most_area = 1 << 16, .least_ratio = 3 << 14, .doublings = 1 << 15}}};
  const auto by_kind = [](const Augmentation& a, const Augmentation& b) { return a.kind < b.kind; };
  std::set<Bytes> different;
  do {
    for (uint32_t sample = 0; sample < 20; ++sample) {
      Bytes expected = original;
      for (const Augmentation& next : order) expected = shown({next}, expected, sample);
      const Bytes found = shown(order, original, sample);
      EXPECT_EQ(found, expected) << "sample " << sample;
      different.insert(found);
    }
  } while (std::ranges::next_permutation(order, by_kind).found);
  EXPECT_GT(different.size(), 200u);
}

TEST(AugmentedImage, DrawsFollowFromSeedEpochAndSample) {
  constexpr ImageSize kSize = {32, 32};
  const std::vector<Augmentation> all = {random_crop(4), kFlip, cutout(16)};
  const Pixels one = augmented(list_of(all, 7), kSize, 3, 1);
  EXPECT_EQ(augmented(list_of(all, 7), kSize, 3, 1), one);
  EXPECT_NE(augmented(list_of(all, 8), kSize, 3, 1), one);
  EXPECT_NE(augmented(list_of(all, 7), kSize, 3, 2), one);
  EXPECT_NE(augmented(list_of(all, 7), kSize, 4, 1), one);
}

TEST(AugmentedImage, DrawsArePartOfEveryResult) {
  // Other numbers here would change every run with augmentation.
  const Augmentations all = list_of({random_crop(2), kFlip, cutout(3)});
  // clang-format off
  const std::vector<Pixels> expected = {
      {0, 0, 0, 0, 0, 0,
       0, 0, 0, 0, 0, 0,
       0, 0, 1, 2, 3, 4,
       0, 0, 0, 8, 9, 10,
       0, 0, 0, 14, 15, 16,
       0, 0, 0, 20, 21, 22},
      {0, 0, 0, 0, 0, 0,
       0, 0, 1, 2, 3, 4,
       0, 0, 7, 8, 9, 10,
       0, 0, 13, 14, 15, 16,
       0, 0, 19, 20, 21, 22,
       0, 0, 25, 26, 27, 28},
      {18, 17, 16, 15, 14, 13,
       24, 23, 22, 21, 20, 19,
       30, 29, 28, 27, 26, 25,
       0, 0, 34, 33, 32, 31,
       0, 0, 0, 0, 0, 0,
       0, 0, 0, 0, 0, 0},
      {0, 12, 11, 10, 9, 8,
       0, 18, 0, 0, 0, 14,
       0, 24, 0, 0, 0, 20,
       0, 30, 0, 0, 0, 26,
       0, 36, 35, 34, 33, 32,
       0, 0, 0, 0, 0, 0}};
  // clang-format on
  for (uint32_t sample = 0; sample < expected.size(); ++sample)
    EXPECT_EQ(augmented(all, {6, 6}, sample), expected[sample]) << "sample " << sample;
}

}  // namespace augmented_image_test
}  // namespace dptrain::ops
