#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/run_figures.h"

namespace dptrain::train {

/// What a test says of a run; figures_of fills in the rest.
struct FiguresRow {
  std::string run;
  size_t devices = 1;
  std::vector<double> seconds = {1};
  std::vector<double> accuracies = {0.9};
  double exposed_comm_s = 0;
  int64_t peak_bytes = 1'000'000;
  double memory_imbalance = 1;
  std::optional<double> target = {};
};

/// Figures with one training for each of `seconds`, of 1,000 samples per epoch. Trainings without an accuracy were
/// never evaluated.
inline RunFigures figures_of(const FiguresRow& row) {
  RunFigures figures{.run = row.run, .strategy = "ddp", .devices = {}, .trainings = {}, .target = row.target};
  for (size_t device = 0; device < row.devices; ++device) figures.devices.push_back("cpu:" + std::to_string(device));
  for (size_t i = 0; i < row.seconds.size(); ++i) {
    TrainingFigures training;
    training.seed = i;
    training.directory = "runs/" + row.run;
    training.epochs = 3;
    training.seconds_per_epoch = row.seconds[i];
    training.samples_per_s = 1000 / row.seconds[i];
    training.time.exposed_comm_s = row.exposed_comm_s;
    training.time.compute_s = row.seconds[i] - row.exposed_comm_s;
    if (i < row.accuracies.size()) {
      training.accuracy = row.accuracies[i];
      training.evaluations = {{.seconds = row.seconds[i], .accuracy = row.accuracies[i] / 2},
                              {.seconds = 2 * row.seconds[i], .accuracy = row.accuracies[i]}};
    }
    training.peak_bytes = row.peak_bytes;
    training.memory_imbalance = row.memory_imbalance;
    training.comm_bytes = 2.5e6;
    training.weights_hash = std::string(64, 'a');
    figures.trainings.push_back(training);
  }
  return figures;
}

}  // namespace dptrain::train
