#pragma once

#include <cstdint>
#include <optional>

namespace dptrain::optim {

/// When the schedule `plateau` reduces the rate: as PyTorch's ReduceLROnPlateau does with a relative threshold.
struct PlateauSpec {
  double factor = 0.1;
  int64_t patience = 10;    ///< evaluations in a row that may be no better
  double threshold = 1e-4;  ///< the share of the best value by which another one has to be better
};

/// What counts as better.
enum class Goal { lowest, highest };

/// How far such a schedule has come.
struct PlateauState {
  double scale = 1;                 ///< of the rate: the product of the factors of all reductions
  std::optional<double> best = {};  ///< the best value of all evaluations
  int64_t since = 0;                ///< evaluations after it, or after the last reduction, that were no better

  /// Counts an evaluation. Whether the rate is to be reduced behind it.
  bool count(double value, const PlateauSpec& spec, Goal goal);
};

}  // namespace dptrain::optim
