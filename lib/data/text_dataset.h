#pragma once

#include "data/dataset_registry.h"

namespace dptrain {

/// Reads the data set `text`: pairs of neighboring lines of `files` (plain or gzip, one sentence per line; by default
/// the King James Bible that comes with the project). The text is cut with a `vocabulary` of so many pieces, and
/// samples have `sequence` tokens; see next_sentence_pairs.h and kept_vocabulary.h. The last `test_share` of the lines
/// are the test part.
DatasetSpec read_text(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
