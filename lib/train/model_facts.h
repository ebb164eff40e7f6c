#pragma once

#include <cstdint>

#include "train/experiment.h"

namespace dptrain::train {

/// What of a model decides which strategies come into question.
struct ModelFacts {
  int units = 0;  ///< stages that it may be cut into
  int64_t gradient_bytes = 0;
  bool batch_norms = false;
};

/// Those of the experiment's model; places nothing.
ModelFacts facts_of(const Experiment& experiment, const Dataset& data);

}  // namespace dptrain::train
