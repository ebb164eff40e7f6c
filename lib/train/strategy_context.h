#pragma once

#include <string>
#include <vector>

#include "data/batch_loader.h"
#include "data/dataset.h"
#include "nn/named_values.h"
#include "optim/schedule.h"
#include "parallel/strategy.h"
#include "parallel/strategy_context.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Throws 78 if the model can't take the data set's images or has nothing to train, 71 if a device can't be opened.
/// Allocates nothing on the devices.
void require_model_fits(const Experiment& experiment, const Dataset& data);
/// Throws 78 if a batch gives a device or shard so few samples that a batch norm couldn't learn. Opens no device.
void require_normalizable(const Experiment& experiment, const Dataset& data);
/// Makes both checks, which are all checks of the data before a training run begins. Throws 78 and 71.
void require_trainable(const Experiment& experiment, const Dataset& data);

/// The context from which an experiment's strategy is made.
parallel::StrategyContext strategy_context(const Experiment& experiment, const Dataset& data);

/// The learning rates of an experiment's steps.
optim::Schedule schedule_of(const Experiment& experiment, int64_t batches_per_epoch);

/// How the batches of an experiment's epochs are loaded for its strategy.
BatchLoaderOptions loader_options(const Experiment& experiment, parallel::Strategy& strategy);

/// The split by the current measured speed of the strategy's devices; see with_first_samples.
BatchSplit measured_split(parallel::Strategy& strategy, const Experiment& experiment, const Dataset& data);

/// The whole model's parameters and running statistics. With several processes, a process that holds only a part of the
/// model gets zeros for the rest. All processes of a job must call it.
std::vector<nn::NamedValues> whole_model(parallel::Strategy& strategy, const TrainingJob* job);

/// Gives a strategy these weights and running statistics. Throws 65, naming `where` and the tensor, if they belong to
/// another model. All processes of a job must call it.
void load_weights(parallel::Strategy& strategy, const std::vector<nn::NamedValues>& tensors, const std::string& where,
                  const TrainingJob* job = nullptr,
                  const std::string& advice = "use the model and options that it was made with");

}  // namespace dptrain::train
