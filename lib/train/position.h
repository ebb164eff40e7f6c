#pragma once

#include <tuple>
#include <vector>

#include "optim/plateau.h"
#include "parallel/strategy.h"

namespace dptrain::train {

/// Where in its course a training is.
struct TrainingPosition {
  int64_t step = 0;     ///< optimizer steps made
  int64_t epochs = 0;   ///< whole ones
  int64_t batches = 0;  ///< of the epoch after them
  optim::PlateauState plateau = {};
  // Of that epoch so far:
  parallel::Score score = {};
  double seconds = 0;
  double data_wait_s = 0;
  double learning_rate = 0;                     ///< of the last step
  std::vector<parallel::RankCosts> costs = {};  ///< by rank
  /// The training ended in the middle of that epoch, and its metrics have been written.
  bool reported = false;

  /// What tells two positions of a training apart.
  using Mark = std::tuple<int64_t, int64_t, int64_t, bool>;
  Mark mark() const { return {step, epochs, batches, reported}; }
};

}  // namespace dptrain::train
