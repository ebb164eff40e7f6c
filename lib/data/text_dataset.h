#pragma once

#include "data/dataset_registry.h"

namespace dptrain {

/// `text`: pairs of neighboring lines of `files` (plain or gzip, a sentence a line; by default the King James Bible
/// that comes with the project) by a `vocabulary` of so many pieces, cut to `sequence` tokens; see
/// next_sentence_pairs.h and kept_vocabulary.h. The last `test_share` of the lines are the test part.
DatasetSpec read_text(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
