#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "data/tokenized_lines.h"

namespace dptrain {

/// Tokens around the two lines of a sample: [CLS] and two [SEP].
inline constexpr int64_t kFrameTokens = 3;

struct SentencePairsOptions {
  DatasetSplit split = DatasetSplit::train;
  int64_t sequence = 128;  ///< tokens of a sample, 5 or more
  uint64_t seed = 0;
  /// The share of the lines, from the end, that are the test part. Each part has at least three lines.
  double test_fraction = 0.05;
  /// How many samples to take, from the beginning; all if there are fewer.
  std::optional<int64_t> limit = {};
};

/// The samples that BERT is trained on (Devlin et al., "BERT", NAACL 2019, section 3.1 and appendix A): pairs of lines,
/// half of which follow one another, with 15 % of their tokens to be predicted. In sample i, A is line i of the part. B
/// is line i + 1, or any line of the part except these two. A pair that is too long loses tokens at the end of the
/// longer line, one by one. Of the chosen tokens, 80 % are masked, 10 % are replaced by any token that isn't special,
/// and 10 % are kept. At least one token is chosen, unless all are [UNK].
///
/// All draws are keyed by (seed, epoch, sample, place): another epoch has other pairs and masks, and nothing else
/// changes a sample. Test samples are always those of epoch 0. Immutable; any thread may use it.
class SentencePairs final : public TextDataset {
 public:
  /// Throws 65 if there are fewer than six lines.
  SentencePairs(std::shared_ptr<const TokenizedLines> lines, const SentencePairsOptions& options);

  /// One fewer than the part has lines, or the limit if that is smaller.
  int64_t samples() const override { return samples_; }
  /// Bytes of the tokens of all lines, which both parts share, and of the lines' offsets.
  int64_t held_bytes() const override;
  int64_t read_bytes() const override { return held_bytes(); }
  int64_t sequence() const override { return options_.sequence; }
  int64_t vocabulary_size() const override { return lines_->vocabulary_size; }
  std::string vocabulary_digest() const override { return lines_->vocabulary_digest; }
  std::string digest() const override;
  void sample(int64_t index, int64_t epoch, TextSample& out) const override;

 private:
  int64_t second_line(int64_t index, uint32_t epoch) const;
  void choose_tokens(int64_t index, uint32_t epoch, TextSample& out) const;

  std::shared_ptr<const TokenizedLines> lines_;
  SentencePairsOptions options_;
  int64_t first_line_ = 0;  ///< of the part
  int64_t part_lines_ = 0;
  int64_t samples_ = 0;
};

}  // namespace dptrain
