#pragma once

#include <cstdint>
#include <vector>

#include "train/experiment.h"

namespace dptrain::train {

/// The facts about a model that decide which strategies are possible.
struct ModelFacts {
  std::vector<bool> has_parameters = {};  ///< for each unit that the model may be cut into
  int64_t gradient_bytes = 0;
  bool batch_norms = false;

  int units() const { return static_cast<int>(has_parameters.size()); }
};

/// The facts about the experiment's model. Allocates no memory for it.
ModelFacts facts_of(const Experiment& experiment, const Dataset& data);

}  // namespace dptrain::train
