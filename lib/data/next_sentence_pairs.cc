#include "data/next_sentence_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/sha256.h"
#include "data/dataset_options.h"

namespace dptrain {
namespace {

/// A part needs a line, the line that follows it and another one to draw, so that both labels occur.
constexpr int64_t kLeastLines = 3;

/// A random word is below this number with the given probability.
constexpr uint32_t below_with(double probability) { return static_cast<uint32_t>(probability * 0x1.0p32); }
constexpr uint32_t kChosen = below_with(0.15);
constexpr uint32_t kMasked = below_with(0.8);
constexpr uint32_t kReplaced = below_with(0.9);

/// The block of random words, beyond those of all places, that picks a token if the draws chose none.
constexpr uint64_t kFallbackBlock = uint64_t{1} << 32;

/// A random word as an integer in [0, bound).
int64_t scaled(uint32_t word, int64_t bound) {
  return static_cast<int64_t>((uint64_t{word} * static_cast<uint64_t>(bound)) >> 32);
}

/// Marks the token at `place` as one to be predicted, and replaces it by what the model sees.
void predict(size_t place, const std::array<uint32_t, 4>& words, int64_t vocabulary_size, TextSample& out) {
  out.labels[place] = out.tokens[place];
  if (words[1] < kMasked)
    out.tokens[place] = kMaskToken;
  else if (words[1] < kReplaced)
    out.tokens[place] = kSpecialTokens + static_cast<int32_t>(scaled(words[2], vocabulary_size - kSpecialTokens));
}

}  // namespace

SentencePairs::SentencePairs(std::shared_ptr<const TokenizedLines> lines, const SentencePairsOptions& options)
    : lines_(std::move(lines)), options_(options) {
  const int64_t count = lines_->count();
  DPTRAIN_CHECK(options_.sequence >= kFrameTokens + 2 && lines_->vocabulary_size > kSpecialTokens &&
                    count <= std::numeric_limits<uint32_t>::max() && options_.test_fraction >= 0 &&
                    options_.test_fraction <= 1,
                "{} lines of {} pieces in sequences of {}", count, lines_->vocabulary_size, options_.sequence);
  if (count < 2 * kLeastLines)
    throw Error(
        ExitCode::bad_data,
        Mistake{.where = "text",
                .expected = fmt::format("expected at least {} lines, half of them for the test", 2 * kLeastLines),
                .got = fmt::format("{}", count),
                .advice = "give more text, with one sentence or verse per line"});
  const auto test_lines = std::clamp(static_cast<int64_t>(options_.test_fraction * static_cast<double>(count)),
                                     kLeastLines, count - kLeastLines);
  const bool test = options_.split == DatasetSplit::test;
  first_line_ = test ? count - test_lines : 0;
  part_lines_ = test ? test_lines : count - test_lines;
  samples_ = limited(part_lines_ - 1, options_.limit);
}

int64_t SentencePairs::held_bytes() const {
  return static_cast<int64_t>(lines_->tokens.size() * sizeof(uint16_t) + lines_->begins.size() * sizeof(int64_t));
}

std::string SentencePairs::digest() const {
  Sha256 digest;
  digest.update(fmt::format("{} {} {} {} {} {}", samples_, options_.sequence, lines_->vocabulary_size,
                            lines_->vocabulary_digest, first_line_, part_lines_));
  digest.update(std::as_bytes(std::span(lines_->begins)));
  digest.update(std::as_bytes(std::span(lines_->tokens)));
  return digest.hex_digest();
}

void SentencePairs::sample(int64_t index, int64_t epoch, TextSample& out) const {
  const auto length = static_cast<size_t>(options_.sequence);
  DPTRAIN_CHECK(index >= 0 && index < samples_ && epoch >= 0 && epoch <= std::numeric_limits<uint32_t>::max(),
                "sample {} of {} in epoch {}", index, samples_, epoch);
  DPTRAIN_CHECK(out.tokens.size() == length && out.segments.size() == length && out.labels.size() == length,
                "{}, {} and {} numbers for a sample of {}", out.tokens.size(), out.segments.size(), out.labels.size(),
                length);
  const uint32_t keyed_epoch = options_.split == DatasetSplit::test ? 0 : static_cast<uint32_t>(epoch);
  const int64_t second = second_line(index, keyed_epoch);
  out.next_sentence = second == index + 1 ? 0 : 1;

  auto a = (*lines_)[first_line_ + index];
  auto b = (*lines_)[first_line_ + second];
  // If both lines need over half of the room, each gets half, and A gets the odd token.
  const size_t room = length - kFrameTokens;
  const size_t most_b = std::max(room / 2, room - std::min(room, a.size()));
  b = b.first(std::min(b.size(), most_b));
  a = a.first(std::min(a.size(), room - b.size()));

  std::ranges::fill(out.tokens, kPadToken);
  std::ranges::fill(out.segments, 0);
  std::ranges::fill(out.labels, kIgnoredLabel);
  auto token = out.tokens.begin();
  *token++ = kClassToken;
  token = std::ranges::copy(a, token).out;
  *token++ = kSeparatorToken;
  const auto segment_one = out.segments.begin() + (token - out.tokens.begin());
  token = std::ranges::copy(b, token).out;
  *token++ = kSeparatorToken;
  std::fill(segment_one, out.segments.begin() + (token - out.tokens.begin()), 1);
  choose_tokens(index, keyed_epoch, out);
}

/// The number of line B within the part.
int64_t SentencePairs::second_line(int64_t index, uint32_t epoch) const {
  const KeyedRandom random(options_.seed, RandomPurpose::sentence_pairs, epoch, static_cast<uint32_t>(index));
  const std::array<uint32_t, 4> words = random.words(0);
  if (words[0] < below_with(0.5)) return index + 1;
  const int64_t other = scaled(words[1], part_lines_ - 2);
  return other < index ? other : other + 2;
}

void SentencePairs::choose_tokens(int64_t index, uint32_t epoch, TextSample& out) const {
  const KeyedRandom random(options_.seed, RandomPurpose::masked_tokens, epoch, static_cast<uint32_t>(index));
  int64_t candidates = 0, chosen = 0;
  const auto is_candidate = [&](size_t place) { return out.tokens[place] >= kSpecialTokens; };
  for (size_t place = 0; place < out.tokens.size(); ++place) {
    if (!is_candidate(place)) continue;
    ++candidates;
    const std::array<uint32_t, 4> words = random.words(place);
    if (words[0] >= kChosen) continue;
    ++chosen;
    predict(place, words, vocabulary_size(), out);
  }
  if (chosen > 0 || candidates == 0) return;
  int64_t to_skip = scaled(random.words(kFallbackBlock)[0], candidates);
  for (size_t place = 0;; ++place) {
    if (!is_candidate(place) || to_skip-- > 0) continue;
    return predict(place, random.words(place), vocabulary_size(), out);
  }
}

}  // namespace dptrain
