#pragma once

#include <cstdint>
#include <vector>

#include "nn/model.h"
#include "parallel/owned_range.h"

namespace dptrain::parallel {

/// Parameters of consecutive stages whose weights are gathered at once for computing, from the ranks that own parts of
/// them.
struct WeightUnit {
  nn::ParameterRun run;
  /// A stage of another unit also uses one of its parameters, so the unit is kept through forward and backward.
  bool is_tied = false;
  int64_t part = 0;       ///< elements per rank, including padding; rank r owns those from r * part on
  int64_t own_begin = 0;  ///< where a rank's part begins in a buffer of its parts of all units

  /// Elements [begin, end) of the model's flat buffers that a rank owns; empty if its part is only padding.
  OwnedRange owned_by(int rank) const;
};

struct WeightUnitOptions {
  /// Neighboring stages are united up to this many MiB of f32 weights; 0: a sixteenth of the model.
  double unit_mb = 0;
  int ranks = 1;
};

/// Divides all parameters of a whole model into units, in their order. Stages are never cut.
std::vector<WeightUnit> plan_weight_units(const nn::Model& model, const WeightUnitOptions& options);

/// Elements of a buffer with one rank's parts of all units.
int64_t own_elements(const std::vector<WeightUnit>& units);

}  // namespace dptrain::parallel
