#pragma once

#include <cstdint>
#include <vector>

#include "nn/model.h"
#include "parallel/owned_range.h"

namespace dptrain::parallel {

/// Parameters of consecutive stages whose weights are brought together at once, to be computed with, from the ranks
/// that own parts of them.
struct WeightUnit {
  nn::ParameterRun run;
  /// A stage of another unit uses one of its parameters, too: it is kept through forward and backward.
  bool is_tied = false;
  int64_t part = 0;       ///< elements that each rank owns, padding included: rank r those from r * part on
  int64_t own_begin = 0;  ///< where a rank's part begins in a buffer that has its parts of all units

  /// Elements [begin, end) of the model's flat buffers that a rank owns; none where its part is padding alone.
  OwnedRange owned_by(int rank) const;
};

struct WeightUnitOptions {
  double unit_mb = 0;  ///< MiB of f32 weights that neighboring stages are united up to; 0: a sixteenth of the model
  int ranks = 1;
};

/// All of a whole model's parameters, unit by unit in their order. Stages are never cut.
std::vector<WeightUnit> plan_weight_units(const nn::Model& model, const WeightUnitOptions& options);

/// Elements of a buffer that has a rank's parts of all units.
int64_t own_elements(const std::vector<WeightUnit>& units);

}  // namespace dptrain::parallel
