#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/trainer.h"

namespace dptrain::train {

/// Keeps the epochs of a training and how far it has come, and hands everything on.
class EpochRecorder final : public TrainingObserver {
 public:
  explicit EpochRecorder(std::unique_ptr<TrainingObserver> watcher) : watcher_(std::move(watcher)) {}

  void on_trial(const std::string& strategy, size_t number, size_t count) override {
    watcher_->on_trial(strategy, number, count);
  }
  void on_choice(const StrategyChoice& choice) override { watcher_->on_choice(choice); }
  void on_step(const Progress& progress) override { watcher_->on_step(progress); }
  void on_epoch(const EpochMetrics& metrics) override {
    epochs_.push_back(metrics);
    watcher_->on_epoch(metrics);
  }
  void on_phase(JobPhase phase, int64_t step) override {
    step_ = step;
    watcher_->on_phase(phase, step);
  }
  void on_checkpoint(int64_t step) override {
    checkpoint_ = step;
    watcher_->on_checkpoint(step);
  }
  void on_warning(const std::string& what) override { watcher_->on_warning(what); }

  const std::vector<EpochMetrics>& epochs() const { return epochs_; }
  int64_t step() const { return step_; }
  /// The step of the last checkpoint; -1 where there is none.
  int64_t checkpoint() const { return checkpoint_; }

 private:
  std::unique_ptr<TrainingObserver> watcher_;
  std::vector<EpochMetrics> epochs_;
  int64_t step_ = 0;
  int64_t checkpoint_ = -1;
};

}  // namespace dptrain::train
