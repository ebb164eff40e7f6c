#pragma once

#include <string>
#include <vector>

#include "data/batch_loader.h"
#include "data/dataset.h"
#include "nn/named_values.h"
#include "optim/schedule.h"
#include "parallel/strategy.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Throws 78 where the model can't take the data set's images or has nothing to train, 71 where a device can't be
/// opened. Nothing is allocated on them.
void require_model_fits(const Experiment& experiment, const Dataset& data);
/// Throws 78 where a batch gives a device or shard so few samples that a batch norm couldn't learn. Opens no device.
void require_normalizable(const Experiment& experiment, const Dataset& data);
/// Both: all of the data that a training refuses before it begins. Throws 78.
void require_trainable(const Experiment& experiment, const Dataset& data);

/// What an experiment's strategy is made from.
parallel::StrategyContext strategy_context(const Experiment& experiment, const Dataset& data);

/// The rates of an experiment's steps.
optim::Schedule schedule_of(const Experiment& experiment, int64_t batches_per_epoch);

/// How the batches of an experiment's epochs are loaded for its strategy.
BatchLoaderOptions loader_options(const Experiment& experiment, parallel::Strategy& strategy);

/// The split that the strategy's devices ask for by their speed, as they are measured now; see with_first_samples.
BatchSplit measured_split(parallel::Strategy& strategy, const Experiment& experiment, const Dataset& data);

/// The whole model's parameters and running statistics as the strategy has them; of several processes those that hold
/// a part of it have zeros for the rest. All processes of a job call it alike.
std::vector<nn::NamedValues> whole_model(parallel::Strategy& strategy, const TrainingJob* job);

/// Gives a strategy these weights and running statistics. Throws 65, naming `where` and the tensor, where they are
/// another model's. All processes of a job call it alike.
void load_weights(parallel::Strategy& strategy, const std::vector<nn::NamedValues>& tensors, const std::string& where,
                  const TrainingJob* job = nullptr,
                  const std::string& advice = "use the model and options that it was made with");

}  // namespace dptrain::train
