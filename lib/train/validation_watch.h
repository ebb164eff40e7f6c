#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/strategy.h"
#include "train/validation_settings.h"

namespace dptrain::train {

/// The epoch that is the best by its validation, as its line of metrics.jsonl has it.
struct BestEpoch {
  int64_t epoch = 0;
  int64_t step = 0;
  double loss = 0;  ///< of its validation, as the accuracy
  double accuracy = 0;
  std::string line;
};

/// Which of a run's epochs is the best so far, and whether the run is to end as it gets no better.
class ValidationWatch {
 public:
  explicit ValidationWatch(const ValidationSettings& settings) : settings_(settings) {}

  /// Whether an epoch with this validation is better than all before; one that is as good isn't.
  bool is_better(const parallel::Score& validation) const;
  /// Counts an epoch, by its line of metrics.jsonl: each once, in order. One without a validation changes nothing.
  void take(const std::string& line);
  const std::optional<BestEpoch>& best() const { return best_; }
  /// `patience` evaluations in a row were no better.
  bool is_over() const { return settings_.patience && evaluations_since_ >= *settings_.patience; }

 private:
  bool is_better(double loss, double accuracy) const;

  ValidationSettings settings_;
  std::optional<BestEpoch> best_;
  int64_t evaluations_since_ = 0;  ///< the best
};

/// Of the lines of a run that is gone on with.
ValidationWatch watch_of(const ValidationSettings& settings, const std::vector<std::string>& lines);

}  // namespace dptrain::train
