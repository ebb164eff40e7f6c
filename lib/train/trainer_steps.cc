// Trains the steps of an epoch: batches, checks between steps, scores and costs.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "train/divergence.h"
#include "train/metrics.h"
#include "train/trainer.h"
#include "train/training_job.h"

namespace dptrain::train {

void Trainer::train_epoch(RunDirectory* directory, TrainingObserver& observer, const StopSignal& stop) {
  for (int rank = 0; rank < strategy_->ranks(); ++rank) strategy_->take_costs(rank);
  compared_ = false;
  loader_->start_epoch(position_.epochs + 1, position_.batches);
  auto counted = Clock::now();  // earlier seconds are already in the position
  const auto count_seconds = [&] {
    const auto now = Clock::now();
    position_.seconds += seconds_between(counted, now);
    counted = now;
  };
  while (!experiment_.steps || position_.step < *experiment_.steps) {
    const auto asked = Clock::now();
    // The first batch also waits for work on all samples, such as reading files.
    observer.on_phase(has_begun_ ? JobPhase::loading : JobPhase::start, position_.step);
    if (trace_) trace_->begin_step(position_.step + 1);
    std::shared_ptr<const Batch> batch = next_batch();
    // Reading files may take any time, but ranks wait for each other only until their timeout.
    if (!std::exchange(has_begun_, true)) wait_for_job();
    position_.data_wait_s += seconds_since(asked);
    if (batch == nullptr) break;
    const int64_t step = position_.step + 1;
    if (!strategy_->may_begin(step, stop.load())) break;
    // The step begins only once the running steps have left room for it.
    observer.on_phase(JobPhase::step, std::max<int64_t>(position_.step, 1));
    under_way_.push_back({.step = step, .epoch = position_.epochs + 1, .learning_rate = schedule_->rate(step)});
    {
      const InSpan span(main_timeline(), "wait for steps under way");
      strategy_->train_step(std::move(batch), under_way_.back());
    }
    observer.on_phase(JobPhase::step, step);
    position_.learning_rate = under_way_.back().learning_rate;
    position_.step = step;
    ++position_.batches;
    // Scores of other processes arrive now and then, unless each step is logged and all processes are at the same step.
    take_scores(directory, experiment_.log_steps && experiment_.job != nullptr && strategy_->is_in_step());
    // In asynchronous training, scores of other processes arrive late.
    if (const auto diverged = strategy_->diverged_step())
      report_diverged(under_way_[diverged->step], {diverged->rank}, rank_name());
    // Asynchronous processes bring their traces together at the end.
    if (trace_ && step == trace_->steps().last && strategy_->is_in_step()) {
      take_scores(directory, true);
      count_seconds();
      end_trace(directory, observer);
      counted = Clock::now();
    }
    count_seconds();
    observer.on_step(progress());
    const int64_t every = experiment_.checkpoint.every_steps;
    if (every > 0 && step % every == 0) {
      take_scores(directory, true);
      count_seconds();
      count_costs();
      save(directory, observer);
      counted = Clock::now();
    }
    if (looks_for_signals_after(step) && signal_of_job(stop) != 0) break;
  }
  take_scores(directory, true);
  count_seconds();
  count_costs();
}

bool Trainer::looks_for_signals_after(int64_t step) const {
  // All processes must meet to agree on a signal. If their devices go without each other for a while, they meet only
  // now and then.
  constexpr int64_t kStepsApart = 8;
  if (!strategy_->is_in_step()) return false;
  const auto averaging = strategy_->averaging();
  return experiment_.job == nullptr || !averaging || averaging->averages_after(step) || step % kStepsApart == 0;
}

TrainingObserver::Progress Trainer::progress() const {
  const Pass train{.score = position_.score, .seconds = position_.seconds};
  const int64_t samples = data_.train->samples(), epochs_after = planned_epochs() - position_.epochs - 1;
  int64_t samples_left = samples - train.score.samples + epochs_after * samples;
  if (experiment_.steps)
    samples_left = std::min(samples_left, (*experiment_.steps - position_.step) * experiment_.batch_size);
  // A GPU's first scores arrive a few steps later.
  const double speed = train.samples_per_s();
  const int64_t every = experiment_.eval_every;
  const int64_t evaluations_left = every > 0 ? planned_epochs() / every - position_.epochs / every : 0;
  return {.epoch = position_.epochs + 1,
          .epochs = planned_epochs(),
          .samples_done = train.score.samples,
          .samples_of_epoch = samples,
          .seconds = train.seconds,
          .mean_loss = train.score.mean_loss(),
          .seconds_left = (speed > 0 ? static_cast<double>(samples_left) / speed : 0) +
                          static_cast<double>(evaluations_left) * evaluation_s_};
}

void Trainer::take_scores(RunDirectory* directory, bool all) {
  for (const parallel::Score& score : strategy_->take_scores(all)) {
    const parallel::StepNumbers numbers = under_way_.front();
    under_way_.pop_front();
    // In synchronous training the main process has all losses, and knows which ranks' losses aren't finite.
    if (is_main() || !strategy_->is_in_step()) require_finite(score, numbers, rank_name());
    position_.score += score;
    if (!experiment_.log_steps || directory == nullptr) continue;
    const std::string line = step_json(numbers, score);
    directory->append_step(line);
    if (tensorboard_) tensorboard_->add_step(numbers.step, line);
  }
}

std::unique_ptr<Batch> Trainer::next_batch() {
  const InSpan span(main_timeline(), "wait for the next batch");
  try {
    return loader_->next();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("step {}, loading its batch: {}", position_.step + 1, error.what()));
  }
}

void Trainer::count_costs() {
  std::vector<parallel::RankCosts> costs;
  for (int rank = 0; rank < strategy_->ranks(); ++rank) costs.push_back(strategy_->take_costs(rank));
  if (experiment_.job != nullptr) costs = gather_costs(experiment_.job->group, costs);
  position_.costs.resize(costs.size());
  for (size_t rank = 0; rank < costs.size(); ++rank) position_.costs[rank] += costs[rank];
}

}  // namespace dptrain::train
