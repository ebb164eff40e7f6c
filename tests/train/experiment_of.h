#pragma once

#include <string>
#include <vector>

#include "config/config_document.h"
#include "train/experiment.h"
#include "train/trainer.h"

namespace dptrain::train {

/// The configuration of a quick experiment: LeNet on a few made-up images over two CPU workers, with these overrides.
inline ConfigNode config_of(const std::vector<std::string>& overrides = {}) {
  ConfigNode root = parse_config(
      "model: lenet\n"
      "dataset: {name: synthetic, samples: 40, test_samples: 70, shape: [1, 16, 16]}\n"
      "devices: [cpu:0, cpu:1]\n"
      "threads: 1\n"
      "batch_size: 16\n"
      "learning_rate: 0.05\n"
      "epochs: 2\n",
      "test.yaml");
  for (const auto& assignment : overrides) override_config(root, assignment);
  return root;
}

/// The experiment that config_of describes.
inline Experiment experiment_of(const std::vector<std::string>& overrides = {}, const ConfigJob& job = {}) {
  Experiment experiment;
  const ConfigSession session(config_of(overrides),
                              [&](ConfigReader& reader) { experiment = read_experiment(reader, "test", job); });
  return experiment;
}

/// Keeps what an observer is told, and may raise the stop signal after a step.
class RecordingObserver final : public TrainingObserver {
 public:
  explicit RecordingObserver(StopSignal* stop = nullptr, size_t stop_after_steps = 0)
      : stop_(stop), stop_after_steps_(stop_after_steps) {}

  void on_step(const Progress& progress) override {
    steps.push_back(progress);
    if (stop_ != nullptr && steps.size() == stop_after_steps_) *stop_ = 2;
  }
  void on_epoch(const EpochMetrics& metrics) override { epochs.push_back(metrics); }
  void on_phase(JobPhase phase, int64_t step) override { phases.emplace_back(phase, step); }

  std::vector<std::pair<JobPhase, int64_t>> phases;
  std::vector<Progress> steps;
  std::vector<EpochMetrics> epochs;

 private:
  StopSignal* stop_;
  size_t stop_after_steps_;
};

}  // namespace dptrain::train
