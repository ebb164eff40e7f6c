#pragma once

#include "config/config_node.h"
#include "data/dataset_registry.h"
#include "train/checkpoint.h"
#include "train/experiment.h"
#include "train/trainer.h"

namespace dptrain::train {

/// What trials of strategies go by.
struct TrialsRequest {
  const ConfigNode& config;  ///< that the experiment was read from
  const Datasets& data;
  TrainingObserver& observer;  ///< is told of each trial
  const StopSignal& stop;
  const ResumePoint* resume = nullptr;  ///< what the training goes on from, where it does
};

/// Gives an experiment with `strategy: auto` a strategy, and the choice with it; others are left as they are. A
/// training that goes on with as many devices keeps the choice that its checkpoint has. Otherwise each of
/// strategy_candidates is made and trains some steps of real batches, one after the other, and the best of choose() it
/// is; those near the fastest are measured twice, the second time in opposite order, so that a machine that grows
/// slower is fair to all. Where devices are unlike and no split is written, the best is tried with `split: auto` as
/// well. On one device it is `single`, without a trial. Returns the signal that ended it, which leaves the experiment
/// as it was, or 0. Throws what the first candidate throws where none can train it.
int choose_strategy(Experiment& experiment, const TrialsRequest& request);

}  // namespace dptrain::train
