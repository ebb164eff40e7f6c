#include "data/next_sentence_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/sha256.h"
#include "data/refusal.h"

namespace dptrain {
namespace {

using testing::expect_refusal;

/// Lines of these lengths. All tokens of line i are kSpecialTokens + i, so that a sample shows which lines it has.
std::shared_ptr<const TokenizedLines> lines_of(const std::vector<int64_t>& lengths, int64_t vocabulary_size = 30000) {
  auto lines = std::make_shared<TokenizedLines>();
  lines->vocabulary_size = vocabulary_size;
  for (size_t i = 0; i < lengths.size(); ++i) {
    lines->tokens.insert(lines->tokens.end(), static_cast<size_t>(lengths[i]),
                         static_cast<uint16_t>(static_cast<size_t>(kSpecialTokens) + i));
    lines->begins.push_back(static_cast<int64_t>(lines->tokens.size()));
  }
  return lines;
}

std::shared_ptr<const TokenizedLines> equal_lines(int64_t count, int64_t length, int64_t vocabulary_size = 30000) {
  return lines_of(std::vector<int64_t>(static_cast<size_t>(count), length), vocabulary_size);
}

/// A sample and the memory that it was written to.
struct Sample {
  std::vector<int32_t> tokens, segments, labels;
  int32_t next_sentence = 0;

  bool operator==(const Sample&) const = default;

  /// The tokens before some of them were chosen for masking.
  std::vector<int32_t> original() const {
    std::vector<int32_t> restored = tokens;
    for (size_t i = 0; i < restored.size(); ++i)
      if (labels[i] != kIgnoredLabel) restored[i] = labels[i];
    return restored;
  }
  int64_t chosen() const { return static_cast<int64_t>(labels.size()) - std::ranges::count(labels, kIgnoredLabel); }
  /// The tokens of a segment, without [CLS], [SEP] and [PAD].
  std::vector<int32_t> line(int32_t segment) const {
    std::vector<int32_t> found;
    for (size_t i = 0; i < tokens.size(); ++i)
      if (segments[i] == segment && original()[i] >= kSpecialTokens) found.push_back(original()[i]);
    return found;
  }
};

Sample sample_of(const SentencePairs& pairs, int64_t index, int64_t epoch = 1) {
  const auto length = static_cast<size_t>(pairs.sequence());
  // No earlier content of the memory may remain.
  Sample sample{.tokens = std::vector<int32_t>(length, 77),
                .segments = std::vector<int32_t>(length, 77),
                .labels = std::vector<int32_t>(length, 77),
                .next_sentence = 77};
  TextSample out{.tokens = sample.tokens, .segments = sample.segments, .labels = sample.labels, .next_sentence = 77};
  pairs.sample(index, epoch, out);
  sample.next_sentence = out.next_sentence;
  return sample;
}

/// Expects `count` of `trials` to match `probability` within five standard deviations. The draws are fixed by their
/// keys, so that this can't fail by chance.
void expect_likely(int64_t count, int64_t trials, double probability) {
  const auto expected = static_cast<double>(trials) * probability;
  EXPECT_NEAR(static_cast<double>(count), expected, 5 * std::sqrt(expected * (1 - probability))) << trials;
}

TEST(SentencePairs, SampleIsTwoLinesInTheirFrame) {
  const SentencePairs pairs(lines_of({3, 4, 2, 5, 1, 2, 3, 4, 2, 2}), {.sequence = 14});
  for (int64_t index = 0; index < pairs.samples(); ++index) {
    const Sample sample = sample_of(pairs, index);
    const std::vector<int32_t> a = sample.line(0), b = sample.line(1);
    std::vector<int32_t> tokens = {kClassToken}, segments(a.size() + 2, 0);
    tokens.insert(tokens.end(), a.begin(), a.end());
    tokens.push_back(kSeparatorToken);
    tokens.insert(tokens.end(), b.begin(), b.end());
    tokens.push_back(kSeparatorToken);
    tokens.resize(14, kPadToken);
    segments.resize(a.size() + b.size() + 3, 1);
    segments.resize(14, 0);
    EXPECT_EQ(sample.original(), tokens);
    EXPECT_EQ(sample.segments, segments);
    EXPECT_EQ(a.front(), kSpecialTokens + index);
  }
}

TEST(SentencePairs, LabelSaysWhetherTheSecondLineFollows) {
  constexpr int64_t kLines = 40, kTrain = 37;
  const SentencePairs pairs(equal_lines(kLines, 2), {.sequence = 8});
  ASSERT_EQ(pairs.samples(), kTrain - 1);
  int64_t follows = 0, trials = 0;
  std::map<int64_t, int64_t> others;  ///< how often each line was drawn for sample 5
  for (int64_t epoch = 1; epoch <= 400; ++epoch)
    for (int64_t index = 0; index < pairs.samples(); ++index, ++trials) {
      const Sample sample = sample_of(pairs, index, epoch);
      const int64_t first = sample.line(0).front() - kSpecialTokens, second = sample.line(1).front() - kSpecialTokens;
      ASSERT_EQ(first, index);
      ASSERT_LT(second, kTrain) << "a line of the test part";
      ASSERT_EQ(sample.next_sentence, second == first + 1 ? 0 : 1);
      ASSERT_NE(second, first);
      follows += sample.next_sentence == 0;
      if (index == 5 && sample.next_sentence == 1) ++others[second];
    }
  expect_likely(follows, trials, 0.5);
  // About 200 draws from 35 lines are expected to miss 35 * exp(-200 / 35) = 0.1 of them.
  EXPECT_EQ(others.size(), static_cast<size_t>(kTrain - 2));
}

TEST(SentencePairs, ChoosesAndMasksAsOftenAsBertDoes) {
  constexpr int64_t kVocabulary = 1000 + kSpecialTokens;
  const SentencePairs pairs(equal_lines(500, 60, kVocabulary), {.sequence = 128});
  int64_t tokens = 0, chosen = 0, masked = 0, kept = 0, replaced = 0;
  std::set<int32_t> replacements;
  for (int64_t epoch = 1; epoch <= 4; ++epoch)
    for (int64_t index = 0; index < pairs.samples(); ++index) {
      const Sample sample = sample_of(pairs, index, epoch);
      tokens += 120;
      for (size_t i = 0; i < sample.tokens.size(); ++i) {
        if (sample.labels[i] == kIgnoredLabel) continue;
        ++chosen;
        if (sample.tokens[i] == kMaskToken) {
          ++masked;
        } else if (sample.tokens[i] == sample.labels[i]) {
          ++kept;
        } else {
          ++replaced;
          replacements.insert(sample.tokens[i]);
        }
      }
    }
  expect_likely(chosen, tokens, 0.15);
  expect_likely(masked, chosen, 0.8);
  // One replacement in a thousand is the token itself.
  expect_likely(kept, chosen, 0.1 + 0.0001);
  expect_likely(replaced, chosen, 0.1 - 0.0001);
  EXPECT_GE(*replacements.begin(), kSpecialTokens);
  EXPECT_LT(*replacements.rbegin(), kVocabulary);
  // About 3,400 draws from 1,000 tokens miss 1000 * exp(-3.4) = 33 of them.
  EXPECT_GT(replacements.size(), 900u);
}

TEST(SentencePairs, AtLeastOneTokenIsChosen) {
  const SentencePairs pairs(equal_lines(300, 1), {.sequence = 16});
  int64_t chosen = 0, first = 0, trials = 0;
  for (int64_t index = 0; index < pairs.samples(); ++index, ++trials) {
    const Sample sample = sample_of(pairs, index);
    ASSERT_GE(sample.chosen(), 1);
    chosen += sample.chosen();
    first += sample.labels[1] != kIgnoredLabel;
  }
  // There are two tokens. With probability 0.85^2 = 0.7225 none is drawn, and then either is chosen; so a place has
  // 0.15 + 0.7225 / 2.
  expect_likely(first, trials, 0.51125);
  expect_likely(chosen - first, trials, 0.51125);
}

TEST(SentencePairs, SpecialTokensAreNeverChosen) {
  auto lines = std::make_shared<TokenizedLines>(*equal_lines(40, 6));
  // Every other token is [UNK]; lines 7 and 8 consist of it alone.
  for (size_t i = 0; i < lines->tokens.size(); ++i)
    if (i % 2 == 0 || i / 6 == 7 || i / 6 == 8) lines->tokens[i] = kUnknownToken;
  const SentencePairs pairs(lines, {.sequence = 20});
  int64_t without = 0;
  for (int64_t epoch = 1; epoch <= 20; ++epoch)
    for (int64_t index = 0; index < pairs.samples(); ++index) {
      const Sample sample = sample_of(pairs, index, epoch);
      for (const int32_t label : sample.labels) ASSERT_TRUE(label == kIgnoredLabel || label >= kSpecialTokens) << label;
      without += sample.chosen() == 0;
      EXPECT_TRUE(sample.chosen() > 0 || index == 7 || index == 8) << index;
    }
  EXPECT_GT(without, 0);
}

/// How many tokens of two lines, of `a` and `b` tokens, a sample of length `sequence` has.
std::pair<size_t, size_t> kept_tokens(int64_t a, int64_t b, int64_t sequence) {
  const SentencePairs pairs(lines_of({a, b, 1, 1, 1, 1}), {.sequence = sequence});
  for (int64_t epoch = 1;; ++epoch) {
    const Sample sample = sample_of(pairs, 0, epoch);
    EXPECT_EQ(sample.tokens.size(), static_cast<size_t>(sequence));
    if (sample.next_sentence == 0) return {sample.line(0).size(), sample.line(1).size()};
  }
}

TEST(SentencePairs, LongPairsLoseTheEndOfTheLongerLine) {
  using Lengths = std::pair<size_t, size_t>;
  EXPECT_EQ(kept_tokens(4, 5, 12), Lengths(4, 5));   // just fits
  EXPECT_EQ(kept_tokens(4, 6, 12), Lengths(4, 5));   // one too many
  EXPECT_EQ(kept_tokens(20, 3, 12), Lengths(6, 3));  // only the longer one loses
  EXPECT_EQ(kept_tokens(3, 20, 12), Lengths(3, 6));
  EXPECT_EQ(kept_tokens(20, 30, 12), Lengths(5, 4));  // both lose tokens
  EXPECT_EQ(kept_tokens(30, 20, 12), Lengths(5, 4));
  EXPECT_EQ(kept_tokens(5, 5, 12), Lengths(5, 4));
  EXPECT_EQ(kept_tokens(9, 9, 5), Lengths(1, 1));
  EXPECT_EQ(kept_tokens(200, 200, 128), Lengths(63, 62));
}

TEST(SentencePairs, TruncationKeepsTheBeginning) {
  auto lines = std::make_shared<TokenizedLines>(*equal_lines(6, 10));
  for (size_t i = 0; i < lines->tokens.size(); ++i)
    lines->tokens[i] = static_cast<uint16_t>(10 * (i / 10 + 1) + i % 10);
  const SentencePairs pairs(lines, {.sequence = 10});
  const Sample sample = sample_of(pairs, 0);
  EXPECT_EQ(sample.line(0), (std::vector<int32_t>{10, 11, 12, 13}));
  EXPECT_EQ(sample.line(1).size(), 3u);
  EXPECT_EQ(sample.line(1).front() % 10, 0);
}

TEST(SentencePairs, DependOnSeedEpochAndSampleAlone) {
  const auto lines = equal_lines(100, 30);
  const SentencePairs pairs(lines, {.sequence = 64, .seed = 3});
  const Sample sample = sample_of(pairs, 50, 7);
  sample_of(pairs, 12, 9);
  EXPECT_EQ(sample_of(pairs, 50, 7), sample);
  EXPECT_EQ(sample_of(SentencePairs(lines, {.sequence = 64, .seed = 3, .limit = 51}), 50, 7), sample);
  EXPECT_NE(sample_of(pairs, 50, 8).labels, sample.labels);
  EXPECT_NE(sample_of(SentencePairs(lines, {.sequence = 64, .seed = 4}), 50, 7).labels, sample.labels);
  // Another sample has its masks at other places.
  const auto places = [](const Sample& of) {
    std::vector<bool> chosen;
    for (const int32_t label : of.labels) chosen.push_back(label != kIgnoredLabel);
    return chosen;
  };
  EXPECT_NE(places(sample_of(pairs, 51, 7)), places(sample));
}

// A run that another version of the program resumes relies on these values.
TEST(SentencePairs, SamplesAreGolden) {
  const SentencePairs pairs(equal_lines(200, 20), {.sequence = 40});
  const Sample first = sample_of(pairs, 0);
  EXPECT_EQ(first.next_sentence, 1);
  EXPECT_EQ(first.line(1).front(), 73);
  Sha256 sha;
  for (int64_t index = 0; index < pairs.samples(); ++index) {
    const Sample sample = sample_of(pairs, index);
    sha.update(std::as_bytes(std::span(sample.tokens)));
    sha.update(std::as_bytes(std::span(sample.labels)));
  }
  EXPECT_EQ(sha.hex_digest(), "5c62bc88fa85a91db6a13a0c4e6bea02a3cb5400628d079aa58114200707744f");
}

TEST(SentencePairs, TestPartIsTheEndOfTheTextAndTheSameInEveryEpoch) {
  const auto lines = equal_lines(200, 4);
  const SentencePairs train(lines, {.sequence = 16}), test(lines, {.split = DatasetSplit::test, .sequence = 16});
  EXPECT_EQ(train.samples(), 189);
  EXPECT_EQ(test.samples(), 9);
  for (int64_t index = 0; index < test.samples(); ++index) {
    const Sample sample = sample_of(test, index, 1);
    EXPECT_EQ(sample.line(0).front(), kSpecialTokens + 190 + index);
    EXPECT_GE(sample.line(1).front(), kSpecialTokens + 190);
    EXPECT_EQ(sample_of(test, index, 2), sample);
    EXPECT_EQ(sample_of(test, index, 0), sample);
  }
}

TEST(SentencePairs, EachPartHasThreeLinesOrMore) {
  const auto samples = [](int64_t lines, double fraction, DatasetSplit split) {
    return SentencePairs(equal_lines(lines, 4), {.split = split, .test_fraction = fraction}).samples();
  };
  EXPECT_EQ(samples(30, 0.05, DatasetSplit::test), 2);
  EXPECT_EQ(samples(30, 0.05, DatasetSplit::train), 26);
  EXPECT_EQ(samples(30, 0.5, DatasetSplit::test), 14);
  EXPECT_EQ(samples(30, 1.0, DatasetSplit::train), 2);
  EXPECT_EQ(samples(6, 0.05, DatasetSplit::train), 2);
  EXPECT_EQ(samples(31102, 0.05, DatasetSplit::test), 1554);
  expect_refusal(ExitCode::bad_data, {"text: expected at least 6 lines", "got 5; give more text"},
                 [&] { samples(5, 0.05, DatasetSplit::train); });
}

TEST(SentencePairs, LimitTakesTheFirstSamples) {
  const auto lines = equal_lines(50, 4);
  EXPECT_EQ(SentencePairs(lines, {.limit = 7}).samples(), 7);
  EXPECT_EQ(SentencePairs(lines, {.limit = 700}).samples(), 46);
}

TEST(SentencePairs, SamplesBeyondTheLastAreABug) {
  const SentencePairs pairs(equal_lines(50, 4), {.sequence = 16});
  expect_refusal(ExitCode::bug, {"sample 46 of 46"}, [&] { sample_of(pairs, 46); });
  TextSample none;
  expect_refusal(ExitCode::bug, {"0, 0 and 0 numbers for a sample of 16"}, [&] { pairs.sample(0, 1, none); });
}

}  // namespace
}  // namespace dptrain
