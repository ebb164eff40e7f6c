#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/score.h"
#include "train/validation_settings.h"

namespace dptrain::train {

/// The epoch with the best validation, as its line of metrics.jsonl describes it.
struct BestEpoch {
  int64_t epoch = 0;
  int64_t step = 0;
  double loss = 0;  ///< of the validation, like `accuracy`
  double accuracy = 0;
  std::string line;
};

/// Tracks the best epoch of a run, and whether the run is to stop because it no longer improves.
class ValidationWatch {
 public:
  explicit ValidationWatch(const ValidationSettings& settings) : settings_(settings) {}

  /// Whether an epoch with this validation is better than all before; an equal one isn't.
  bool is_better(const parallel::Score& validation) const;
  /// Counts an epoch, from its line of metrics.jsonl. Call it once for each epoch, in order. A line without a
  /// validation changes nothing.
  void take(const std::string& line);
  const std::optional<BestEpoch>& best() const { return best_; }
  /// Whether `patience` evaluations in a row were no better.
  bool is_over() const { return settings_.patience && evaluations_since_ >= *settings_.patience; }

 private:
  bool is_better(double loss, double accuracy) const;

  ValidationSettings settings_;
  std::optional<BestEpoch> best_;
  int64_t evaluations_since_ = 0;  ///< since the best one
};

/// The watch after the lines of a run that is resumed.
ValidationWatch watch_of(const ValidationSettings& settings, const std::vector<std::string>& lines);

}  // namespace dptrain::train
