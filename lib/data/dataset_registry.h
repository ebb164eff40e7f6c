#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config_reader.h"
#include "data/dataset.h"
#include "data/dataset_options.h"

namespace dptrain {

/// A data set that a configuration names, with its options read but no file opened yet.
struct DatasetSpec {
  std::string name = {};
  SampleOrder order = {};
  bool has_images = true;  ///< its samples are images, which can be augmented
  /// Pictures of any size are brought to that of its images, which has equal sides.
  bool scales_pictures = false;
  /// What its samples and their order follow from, but for files: what it was read with, without places, counts and
  /// partition.
  ResolvedOptions options = {};
  /// Opens and checks everything: throws 66 where files are missing, 65 for what they hold, before any device is
  /// opened.
  std::function<Datasets()> open = {};
  /// The same where nothing is held out of the training samples, as `open` may do for a validation.
  std::function<Datasets()> open_whole = {};
};

/// Sizes of text that a model takes.
struct TextSizes {
  int64_t vocabulary = 8000;
  int64_t sequence = 128;
};

/// What a data set adapts to.
struct DatasetRequest {
  uint64_t seed = 0;
  std::optional<TextSizes> text = {};  ///< where the model is one of text
};

/// Reads the key `dataset`: a name or {name: ..., dir: ..., limit: ...}. One table of names stands behind it.
DatasetSpec read_dataset(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
