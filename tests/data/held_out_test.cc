#include "data/held_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data/dataset_digest.h"
#include "data/next_sentence_pairs.h"
#include "data/synthetic.h"
#include "data/synthetic_text.h"
#include "data/tokenized_lines.h"

namespace dptrain {
namespace {

using Pixels = std::vector<uint8_t>;

ImageDatasets forty_images() {
  const auto images =
      std::make_shared<ByteImages>(make_synthetic({.samples = 40, .image_shape = {1, 4, 4}}), Normalization());
  return {.train = images, .test = images};
}

Pixels pixels_of(const ImageDataset& images, int64_t first, int64_t count) {
  Pixels pixels(static_cast<size_t>(count * images.image_shape().elements()));
  images.pixels(first, pixels);
  return pixels;
}

const ImageDataset& images_in(const std::shared_ptr<const Dataset>& part) {
  return dynamic_cast<const ImageDataset&>(*part);
}

TEST(HeldOut, PartsAreAllSamplesOnceInTheirOrder) {
  const ImageDatasets whole = forty_images();
  const Datasets parts = hold_out(whole, 15);
  EXPECT_EQ(parts.test, whole.test);
  std::vector<int64_t> places;
  for (const auto& part : {parts.train, parts.validation}) {
    const ImageDataset& images = images_in(part);
    int64_t before = -1;
    for (int64_t i = 0; i < images.samples(); ++i) {
      const Pixels own = pixels_of(images, i, 1);
      int64_t place = before + 1;
      while (place < 40 && pixels_of(*whole.train, place, 1) != own) ++place;
      ASSERT_LT(place, 40) << "no such image behind the one before";
      EXPECT_EQ(images.label(i), whole.train->label(place));
      std::vector<float> image(16), expected(16);
      images.image(i, image);
      whole.train->image(place, expected);
      EXPECT_EQ(image, expected);
      places.push_back(before = place);
    }
  }
  EXPECT_EQ(parts.validation->samples(), 15);
  EXPECT_EQ(std::set(places.begin(), places.end()).size(), 40u);
}

TEST(HeldOut, PixelsOfSeveralAreThoseOfEach) {
  const Datasets parts = hold_out(forty_images(), 9);
  const ImageDataset& images = images_in(parts.train);
  Pixels expected;
  for (int64_t i = 3; i < 29; ++i) {
    const Pixels one = pixels_of(images, i, 1);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  EXPECT_EQ(pixels_of(images, 3, 26), expected);
}

/// If the data are sorted by class, both parts still have some of each class.
TEST(HeldOut, IsARandomChoiceThatIsAlwaysTheSame) {
  const auto digests = [](int64_t samples) {
    const Datasets parts = hold_out(forty_images(), samples);
    return std::pair(digest_of(*parts.train), digest_of(*parts.validation));
  };
  EXPECT_EQ(digests(10), digests(10));
  EXPECT_NE(digests(10), digests(11));
  EXPECT_NE(digests(20).first, digests(20).second);
  const Datasets parts = hold_out(forty_images(), 20);
  const ImageDataset& held_out = images_in(parts.validation);
  std::set<int32_t> labels;
  for (int64_t i = 0; i < held_out.samples(); ++i) labels.insert(held_out.label(i));
  EXPECT_GE(labels.size(), 6u);
}

std::vector<int32_t> tokens_of(const TextDataset& text, int64_t index, int64_t epoch) {
  const auto length = static_cast<size_t>(text.sequence());
  std::vector<int32_t> tokens(length), segments(length), labels(length);
  TextSample sample{.tokens = tokens, .segments = segments, .labels = labels};
  text.sample(index, epoch, sample);
  return tokens;
}

/// Held-out samples have fixed masks, which differ from every epoch's.
TEST(HeldOut, IsOfTextToo) {
  const auto lines =
      std::make_shared<const TokenizedLines>(make_synthetic_text({.lines = 46, .vocabulary = 60, .sequence = 24}));
  const auto pairs = std::make_shared<SentencePairs>(lines, SentencePairsOptions{.sequence = 24, .test_fraction = 0.1});
  const Datasets parts = hold_out({.train = pairs, .test = pairs}, 7);
  const auto& rest = dynamic_cast<const TextDataset&>(*parts.train);
  const auto& held_out = dynamic_cast<const TextDataset&>(*parts.validation);
  EXPECT_EQ(rest.samples() + held_out.samples(), pairs->samples());
  EXPECT_EQ(held_out.samples(), 7);
  EXPECT_EQ(held_out.sequence(), 24);
  EXPECT_EQ(held_out.vocabulary_digest(), pairs->vocabulary_digest());
  EXPECT_NE(digest_of(held_out), digest_of(rest));

  std::multiset<std::vector<int32_t>> whole, chosen;
  for (int64_t i = 0; i < pairs->samples(); ++i) whole.insert(tokens_of(*pairs, i, 0));
  for (int64_t i = 0; i < rest.samples(); ++i) chosen.insert(tokens_of(rest, i, 0));
  for (int64_t i = 0; i < held_out.samples(); ++i) chosen.insert(tokens_of(held_out, i, 5));
  EXPECT_EQ(chosen, whole);
  EXPECT_NE(tokens_of(rest, 0, 1), tokens_of(rest, 0, 2));
}

}  // namespace
}  // namespace dptrain
