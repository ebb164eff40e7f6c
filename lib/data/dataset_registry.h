#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "config/config_reader.h"
#include "data/dataset.h"

namespace dptrain {

/// A data set that a configuration names, with its options read but no file opened yet.
struct DatasetSpec {
  std::string name = {};
  bool shuffle = true;
  bool has_images = true;  ///< its samples are images, which can be augmented
  /// Opens and checks everything: throws 66 where files are missing, 65 for what they hold, before any device is
  /// opened.
  std::function<Datasets()> open = {};
};

/// Reads the key `dataset`: a name or {name: ..., dir: ..., limit: ...}. One table of names stands behind it.
DatasetSpec read_dataset(ConfigReader& config, uint64_t seed);

}  // namespace dptrain
