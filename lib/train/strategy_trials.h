#pragma once

#include "config/config_node.h"
#include "data/dataset_registry.h"
#include "train/checkpoint.h"
#include "train/experiment.h"
#include "train/trainer.h"

namespace dptrain::train {

/// The input of the trials.
struct TrialsRequest {
  const ConfigNode& config;  ///< the configuration that the experiment was read from
  const Datasets& data;
  TrainingObserver& observer;  ///< hears of each trial
  const StopSignal& stop;
  const ResumePoint* resume = nullptr;  ///< the checkpoint that the training goes on from, if any
};

/// Chooses a strategy for an experiment with `strategy: auto`, and stores the choice in it; other experiments are
/// unchanged. Returns the signal that stopped it, which leaves the experiment unchanged, or 0. If no candidate can
/// train the experiment, throws what the first one throws.
/// - One device gets `single`, without a trial.
/// - A training run that goes on with the same number of devices keeps its checkpoint's choice.
/// - Otherwise each of strategy_candidates trains some steps of real batches, one candidate after the other, and
///   choose() decides.
/// - Candidates near the fastest are measured twice, the second time in reverse order, so that a machine that becomes
///   slower is fair to all.
/// - If devices are unlike and no split is written, the best candidate is also tried with `split: auto`.
int choose_strategy(Experiment& experiment, const TrialsRequest& request);

}  // namespace dptrain::train
