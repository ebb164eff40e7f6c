#include "data/synthetic_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/random.h"
#include "data/dataset_options.h"
#include "data/next_sentence_pairs.h"
#include "device/host_machine.h"

namespace dptrain {
namespace {

/// The second part of the random numbers' key, after those in synthetic.cc. It is part of every result: never renumber.
constexpr uint32_t kTextDraw = 3;
constexpr int64_t kWords = 64;
/// Bytes that TokenizedLines keeps per token and per line.
constexpr int64_t kBytesOfToken = sizeof(uint16_t), kBytesOfLine = sizeof(int64_t);

/// Tokens of the longest lines; two of them make a sample.
int64_t longest_line(int64_t sequence) { return std::max<int64_t>(1, (sequence - kFrameTokens) / 2); }

/// Lines needed for so many samples: a pair also takes the line after its own, and a part of a text has at least three
/// lines.
int64_t lines_for(int64_t samples) { return std::max<int64_t>(3, samples + 1); }

}  // namespace

TokenizedLines make_synthetic_text(const SyntheticTextOptions& options) {
  const int64_t words = std::min(kWords, options.vocabulary - kSpecialTokens);
  const int64_t most = longest_line(options.sequence), least = options.full ? most : (most + 1) / 2;
  TokenizedLines text{.vocabulary_size = options.vocabulary};
  text.tokens.reserve(static_cast<size_t>(options.lines * most));
  text.begins.reserve(static_cast<size_t>(options.lines + 1));
  int64_t word = 0;
  for (int64_t line = 0; line < options.lines; ++line) {
    const KeyedRandom random(options.seed, RandomPurpose::synthetic, kTextDraw, static_cast<uint32_t>(line));
    const int64_t length = least + random.words(0)[0] % (most - least + 1);
    for (int64_t place = 0; place < length; ++place) {
      const auto drawn = random.words(static_cast<uint64_t>(1 + place));
      word = drawn[0] % 8 == 0 ? drawn[1] % words : (word + 1) % words;
      text.tokens.push_back(static_cast<uint16_t>(kSpecialTokens + word));
    }
    text.begins.push_back(static_cast<int64_t>(text.tokens.size()));
  }
  return text;
}

bool read_full_lines(ConfigReader& config) {
  return config.boolean("full", false, "text only: every sample fills the sequence");
}

DatasetSpec synthetic_text(ConfigReader& config, const DatasetRequest& request, const SampleCounts& samples) {
  const DatasetLimits limits = read_limits(config);
  DatasetSpec spec;
  spec.order = read_sample_order(config);
  const bool full = read_full_lines(config);
  spec.has_images = false;
  const int64_t train = limited(samples.train, limits.train), test = limited(samples.test, limits.test);
  const double bytes = static_cast<double>(lines_for(train) + lines_for(test)) *
                       static_cast<double>(longest_line(request.text->sequence) * kBytesOfToken + kBytesOfLine);
  if (bytes > static_cast<double>(host_memory_bytes()))
    config.mistake(
        "samples",
        fmt::format("expected a text that fits into the {} bytes of this machine's memory", host_memory_bytes()),
        fmt::format("{:.0f} bytes", bytes), "ask for fewer samples or a shorter sequence");
  spec.open = [full, seed = request.seed, text = *request.text, train, test] {
    const int64_t test_lines = lines_for(test), count = lines_for(train) + test_lines;
    const auto lines = std::make_shared<const TokenizedLines>(make_synthetic_text(
        {.seed = seed, .lines = count, .vocabulary = text.vocabulary, .sequence = text.sequence, .full = full}));
    SentencePairsOptions options{.sequence = text.sequence,
                                 .seed = seed,
                                 .test_fraction = (static_cast<double>(test_lines) + 0.5) / static_cast<double>(count),
                                 .limit = train};
    Datasets pairs;
    pairs.train = std::make_shared<SentencePairs>(lines, options);
    options.split = DatasetSplit::test;
    options.limit = test;
    pairs.test = std::make_shared<SentencePairs>(lines, options);
    return pairs;
  };
  return spec;
}

}  // namespace dptrain
