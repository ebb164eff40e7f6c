#pragma once

#include <cstdint>
#include <string>

#include "train/trainer.h"

namespace dptrain::train {

/// Forwards every event to another observer. A derived class that records something overrides the event's function and
/// calls this class's version.
class ForwardingObserver : public TrainingObserver {
 public:
  /// `observer` outlives this one.
  explicit ForwardingObserver(TrainingObserver& observer) : observer_(observer) {}

  void on_trial(const std::string& strategy, size_t number, size_t count) override {
    observer_.on_trial(strategy, number, count);
  }
  void on_choice(const StrategyChoice& choice) override { observer_.on_choice(choice); }
  void on_phase(JobPhase phase, int64_t step) override { observer_.on_phase(phase, step); }
  void on_checkpoint(int64_t step) override { observer_.on_checkpoint(step); }
  void on_step(const Progress& progress) override { observer_.on_step(progress); }
  void on_evaluation(const EvaluationProgress& progress) override { observer_.on_evaluation(progress); }
  void on_epoch(const EpochMetrics& metrics) override { observer_.on_epoch(metrics); }
  void on_reduced_rate(double rate) override { observer_.on_reduced_rate(rate); }
  void on_warning(const std::string& text) override { observer_.on_warning(text); }

 private:
  TrainingObserver& observer_;
};

}  // namespace dptrain::train
