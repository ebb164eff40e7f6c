#pragma once

#include <cstdint>

#include "data/dataset_registry.h"
#include "data/tokenized_lines.h"

namespace dptrain {

struct SyntheticTextOptions {
  uint64_t seed = 0;
  int64_t lines = 0;
  int64_t vocabulary = 8000;
  /// The sequence length of the samples to be made: a line has a quarter to a half of it in tokens.
  int64_t sequence = 128;
  /// Whether all lines have half of it, so that every sample fills the sequence.
  bool full = false;
};

/// Makes lines of tokens that can be learned. The text counts through 64 tokens of the vocabulary (all of a smaller
/// one), over and over. At one place in eight it jumps, and a line continues where the one before ended. Keyed by
/// (seed, line).
TokenizedLines make_synthetic_text(const SyntheticTextOptions& options);

struct SampleCounts {
  int64_t train = 0;
  int64_t test = 0;
};

/// Reads `full`; see SyntheticTextOptions.
bool read_full_lines(ConfigReader& config);

/// Reads the data set `synthetic` for a model of text: `limit`, `test_limit`, `shuffle` and `full`.
DatasetSpec synthetic_text(ConfigReader& config, const DatasetRequest& request, const SampleCounts& samples);

}  // namespace dptrain
