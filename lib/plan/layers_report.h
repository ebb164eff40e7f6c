#pragma once

#include <string>

#include "plan/model_layers.h"

namespace dptrain::plan {

/// What `dptrain plan --layers` prints.
struct LayersReport {
  std::string run;
  std::string model;
  ModelLayers of;

  /// A table with a row for each stage, between sentences in lines of at most `width` characters. The table is as wide
  /// as its names need: nothing cuts them, because they are the names in configurations and checkpoints.
  std::string text(int width) const;
  /// One document; docs/layers.schema.json is its schema.
  std::string json() const;
};

}  // namespace dptrain::plan
