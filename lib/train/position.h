#pragma once

#include <tuple>
#include <vector>

#include "optim/plateau.h"
#include "parallel/rank_costs.h"
#include "parallel/score.h"

namespace dptrain::train {

/// How far a training run has come.
struct TrainingPosition {
  int64_t step = 0;     ///< optimizer steps made
  int64_t epochs = 0;   ///< completed epochs
  int64_t batches = 0;  ///< batches of the current epoch, the one after these
  optim::PlateauState plateau = {};
  // Of the current epoch so far:
  parallel::Score score = {};
  double seconds = 0;
  double data_wait_s = 0;
  double learning_rate = 0;                     ///< of the last step
  std::vector<parallel::RankCosts> costs = {};  ///< by rank
  /// The training ended in the middle of the current epoch, and that epoch's metrics have been written.
  bool reported = false;

  /// The values that distinguish two positions of a training run.
  using Mark = std::tuple<int64_t, int64_t, int64_t, bool>;
  Mark mark() const { return {step, epochs, batches, reported}; }
};

}  // namespace dptrain::train
