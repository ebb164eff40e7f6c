#pragma once

#include <cstdint>
#include <optional>

namespace dptrain::optim {

/// When the schedule `plateau` reduces the rate, as in PyTorch's ReduceLROnPlateau with a relative threshold.
struct PlateauSpec {
  double factor = 0.1;
  int64_t patience = 10;    ///< evaluations in a row that may be no better
  double threshold = 1e-4;  ///< how much better a value must be, as a share of the best value
};

/// What counts as better.
enum class Goal { lowest, highest };

/// The progress of such a schedule.
struct PlateauState {
  double scale = 1;                 ///< the product of the factors of all reductions of the rate
  std::optional<double> best = {};  ///< the best value of all evaluations
  int64_t since = 0;  ///< evaluations since the best one, or since the last reduction, that were no better

  /// Counts an evaluation. Returns whether the rate is to be reduced after it.
  bool count(double value, const PlateauSpec& spec, Goal goal);
};

}  // namespace dptrain::optim
