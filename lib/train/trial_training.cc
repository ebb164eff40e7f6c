#include "train/trial_training.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/median.h"
#include "train/strategy_context.h"

namespace dptrain::train {

TrialFigures TrialCosts::figures(int64_t samples) const {
  DPTRAIN_CHECK(!step_seconds.empty(), "a trial without steps");
  const double seconds = median(step_seconds);
  const auto steps = static_cast<int64_t>(step_seconds.size());
  return {.seconds_per_step = seconds,
          .samples_per_s = static_cast<double>(samples) / seconds,
          .exposed_comm_s = communication_s / static_cast<double>(steps),
          .bytes_per_step = bytes / steps,
          .peak_bytes = peak_bytes};
}

namespace {

/// The context of a trial. It has no timelines, because these would take time and nobody sees them, and no faults,
/// which only the training is to suffer.
parallel::StrategyContext trial_context(const Experiment& experiment, const Datasets& data) {
  parallel::StrategyContext context = strategy_context(experiment, *data.train);
  context.team.has_timelines = false;
  context.faults.clear();
  return context;
}

}  // namespace

TrialTraining::TrialTraining(const Experiment& experiment, const Datasets& data)
    : strategy_(experiment.strategy.make(trial_context(experiment, data))) {
  if (experiment.split.measured) strategy_->set_split(measured_split(*strategy_, experiment, *data.train));
  loader_ = std::make_unique<BatchLoader>(data.train, loader_options(experiment, *strategy_));
  batches_.emplace(*loader_, experiment, *data.train);
  schedule_.emplace(schedule_of(experiment, loader_->batches_per_epoch()));
}

double TrialTraining::train_step() {
  std::shared_ptr<const Batch> batch = batches_->next();
  ++step_;
  const auto begun = Clock::now();
  strategy_->train_step(std::move(batch),
                        {.step = step_, .epoch = batches_->epoch(), .learning_rate = schedule_->rate(step_)});
  strategy_->take_scores(true);
  return seconds_since(begun);
}

void TrialTraining::count_costs(TrialCosts& costs, bool warming_up) {
  for (int rank = 0; rank < strategy_->ranks(); ++rank) {
    const parallel::RankCosts own = strategy_->take_costs(rank);
    costs.peak_bytes = std::max(costs.peak_bytes, own.peak_bytes);
    if (warming_up) continue;
    costs.communication_s += own.times[parallel::Phase::communication] / strategy_->ranks();
    costs.bytes += own.communication.bytes;
  }
}

}  // namespace dptrain::train
