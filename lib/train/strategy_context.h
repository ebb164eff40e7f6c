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
/// That, and all else of the data that a training refuses before it begins. Throws 78.
void require_trainable(const Experiment& experiment, const Dataset& data);

/// What an experiment's strategy is made from.
parallel::StrategyContext strategy_context(const Experiment& experiment, const Dataset& data);

/// The rates of an experiment's steps.
optim::Schedule schedule_of(const Experiment& experiment, int64_t batches_per_epoch);

/// How the batches of an experiment's epochs are loaded for its strategy.
BatchLoaderOptions loader_options(const Experiment& experiment, parallel::Strategy& strategy);

/// The split that the strategy's devices ask for by their speed, as they are measured now; see with_first_samples.
BatchSplit measured_split(parallel::Strategy& strategy, const Experiment& experiment, const Dataset& data);

/// Gives a strategy these weights and running statistics. Throws 65, naming `where` and the tensor, where they are
/// another model's. All processes of a job call it alike.
void load_weights(parallel::Strategy& strategy, const std::vector<nn::NamedValues>& tensors, const std::string& where,
                  const TrainingJob* job = nullptr);

/// The file's weights that an experiment begins with, which there are to be. Throws as find_weights and
/// read_safetensors do, and 65 where a value isn't finite.
std::vector<nn::NamedValues> read_initial_weights(const Experiment& experiment);

/// Gives a strategy the weights that the experiment begins with, where these are a file's. Throws 65, naming the file
/// and the tensor, where they are another model's, and as find_weights does.
void load_initial_weights(parallel::Strategy& strategy, const Experiment& experiment, const Dataset& data);

}  // namespace dptrain::train
