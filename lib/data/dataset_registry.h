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
  /// Whether pictures of any size are scaled to the size of the data set's images, which are square.
  bool scales_pictures = false;
  /// The options that its samples and their order follow from, without folders, files, counts and the partition.
  ResolvedOptions options = {};
  /// Opens and checks everything, before any device is opened. Throws 66 if files are missing, and 65 for bad content.
  std::function<Datasets()> open = {};
  /// Like `open`, but holds nothing out: `open` may hold out training samples for a validation.
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
  std::optional<TextSizes> text = {};  ///< set if the model is one of text
};

/// Reads the key `dataset`: a name, or {name: ..., dir: ..., limit: ...}. The names are in one table.
DatasetSpec read_dataset(ConfigReader& config, const DatasetRequest& request);

}  // namespace dptrain
