#include "data/dataset_digest.h"

#include <gtest/gtest.h>

#include <set>

#include "data/next_sentence_pairs.h"
#include "data/synthetic.h"
#include "data/synthetic_text.h"

namespace dptrain {
namespace {

std::string digest_of_images(const SyntheticOptions& options, const Normalization& normalization = {}) {
  return digest_of(ByteImages(make_synthetic(options), normalization));
}

std::string digest_of_text(const SyntheticTextOptions& text, const SentencePairsOptions& pairs) {
  return digest_of(SentencePairs(std::make_shared<const TokenizedLines>(make_synthetic_text(text)), pairs));
}

TEST(DatasetDigest, IsThatOfAllThatSamplesFollowFrom) {
  const SyntheticOptions images{.samples = 20, .image_shape = {1, 4, 4}};
  const std::string digest = digest_of_images(images);
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(digest_of_images(images), digest);
  const SyntheticTextOptions text{.lines = 30, .vocabulary = 50, .sequence = 16};
  EXPECT_EQ(digest_of_text(text, {.sequence = 16}), digest_of_text(text, {.sequence = 16}));
  LabelledBytes other_pixel = make_synthetic(images), other_label = other_pixel;
  other_pixel.pixels.back() ^= 1;
  other_label.labels.back() ^= 1;
  const std::set<std::string> different = {
      digest,
      digest_of(ByteImages(other_pixel, {})),
      digest_of(ByteImages(other_label, {})),
      digest_of_images({.samples = 19, .image_shape = {1, 4, 4}}),
      digest_of_images({.samples = 20, .image_shape = {1, 2, 8}}),
      digest_of_images(images, {.mean = {0.5f}, .std = {0.5f}}),
      digest_of_text(text, {.sequence = 16}),
      digest_of_text(text, {.split = DatasetSplit::test, .sequence = 16}),
      digest_of_text(text, {.sequence = 16, .limit = 5}),
      digest_of_text({.seed = 1, .lines = 30, .vocabulary = 50, .sequence = 16}, {.sequence = 16})};
  EXPECT_EQ(different.size(), 10u);
}

}  // namespace
}  // namespace dptrain
