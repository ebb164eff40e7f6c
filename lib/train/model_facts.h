#pragma once

#include <cstdint>
#include <vector>

#include "train/experiment.h"

namespace dptrain::train {

/// What of a model decides which strategies come into question.
struct ModelFacts {
  std::vector<bool> has_parameters = {};  ///< by the units that it may be cut into
  int64_t gradient_bytes = 0;
  bool batch_norms = false;

  int units() const { return static_cast<int>(has_parameters.size()); }
};

/// Those of the experiment's model; places nothing.
ModelFacts facts_of(const Experiment& experiment, const Dataset& data);

}  // namespace dptrain::train
