#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "train/forwarding_observer.h"

namespace dptrain::train {

/// Records the epochs of a training run, its current step and its last checkpoint.
class EpochRecorder final : public ForwardingObserver {
 public:
  explicit EpochRecorder(std::unique_ptr<TrainingObserver> watcher)
      : ForwardingObserver(*watcher), watcher_(std::move(watcher)) {}

  void on_phase(JobPhase phase, int64_t step) override {
    step_ = step;
    ForwardingObserver::on_phase(phase, step);
  }
  void on_checkpoint(int64_t step) override {
    checkpoint_ = step;
    ForwardingObserver::on_checkpoint(step);
  }
  void on_epoch(const EpochMetrics& metrics) override {
    epochs_.push_back(metrics);
    ForwardingObserver::on_epoch(metrics);
  }

  const std::vector<EpochMetrics>& epochs() const { return epochs_; }
  int64_t step() const { return step_; }
  /// The step of the last checkpoint; -1 if there is none.
  int64_t checkpoint() const { return checkpoint_; }

 private:
  std::unique_ptr<TrainingObserver> watcher_;
  std::vector<EpochMetrics> epochs_;
  int64_t step_ = 0;
  int64_t checkpoint_ = -1;
};

}  // namespace dptrain::train
