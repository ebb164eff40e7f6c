#include "train/first_steps.h"

#include "data/batch_loader.h"
#include "train/initial_weights.h"
#include "train/nudged_weights.h"
#include "train/safetensors.h"
#include "train/strategy_context.h"
#include "train/whole_batches.h"

namespace dptrain::train {

FirstSteps train_first_steps(const Experiment& experiment, const Datasets& data, const FirstStepsOptions& options) {
  const auto strategy = experiment.strategy.make(strategy_context(experiment, *data.train));
  load_initial_weights(*strategy, experiment, *data.train);
  if (options.nudge_roundings != 0) nudge_weights(*strategy, options.nudge_roundings);
  BatchLoader loader(data.train, loader_options(experiment, *strategy));
  WholeBatches batches(loader, experiment, *data.train);
  const optim::Schedule schedule = schedule_of(experiment, loader.batches_per_epoch());
  for (int rank = 0; rank < strategy->ranks(); ++rank) strategy->take_costs(rank);

  FirstSteps first;
  for (int64_t step = 1; step <= options.steps; ++step) {
    if (options.stop != nullptr && options.stop->load() != 0) return first;
    std::shared_ptr<const Batch> batch = batches.next();
    loader.wait_until_full();
    const double rate = schedule.rate(step);
    strategy->train_step(std::move(batch), {.step = step, .epoch = batches.epoch(), .learning_rate = rate});
    const parallel::Score score = strategy->take_scores(true).back();
    first.steps.push_back({.learning_rate = rate, .samples = score.samples, .loss = score.mean_loss()});
  }
  for (int rank = 0; rank < strategy->ranks(); ++rank) {
    const parallel::RankCosts costs = strategy->take_costs(rank);
    first.sent += costs.communication;
    first.devices.push_back({.name = strategy->device(rank).name(), .peak_bytes = costs.peak_bytes});
  }
  first.weights_hash = weights_hash(strategy->state_dict());
  return first;
}

}  // namespace dptrain::train
