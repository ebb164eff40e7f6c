#include "train/trainer.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/finite.h"
#include "comm/process_activity.h"
#include "parallel/thread_failure.h"
#include "train/best_link.h"
#include "train/checkpoint_files.h"
#include "train/first_statistics.h"
#include "train/initial_weights.h"
#include "train/safetensors.h"
#include "train/strategy_context.h"
#include "train/training_identity.h"
#include "train/weight_gathering.h"

namespace dptrain::train {

Trainer::Trainer(const Experiment& experiment, const Datasets& data, const std::string& config_hash,
                 const std::optional<ResumePoint>& resume)
    : experiment_(experiment),
      data_(data),
      config_hash_(config_hash),
      strategy_(experiment.strategy.make(strategy_context(experiment, *data.train))),
      chance_(*data.train, experiment.label_smoothing),
      validation_(experiment.validation) {
  // The strategy may wait for the other processes when it ends, so they must hear why they are to end.
  const auto fail_job = [this](const Error& error) {
    if (experiment_.job != nullptr) experiment_.job->group.fail({.code = error.code(), .sentence = error.what()});
  };
  try {
    begin(resume);
  } catch (const Error& error) {
    fail_job(error);
    throw;
  } catch (const std::exception&) {
    fail_job(parallel::described("the beginning of the training", std::current_exception()));
    throw;
  }
}

void Trainer::begin(const std::optional<ResumePoint>& resume) {
  share_out(resume);
  loader_ = std::make_unique<BatchLoader>(data_.train, loader_options(experiment_, *strategy_));
  schedule_.emplace(schedule_of(experiment_, loader_->batches_per_epoch()));
  if (resume)
    restore(*resume);
  else
    load_initial_weights(*strategy_, experiment_, *data_.train);
}

void Trainer::share_out(const std::optional<ResumePoint>& resume) {
  if (!experiment_.split.measured) return;
  const auto ranks = static_cast<size_t>(strategy_->world_size());
  if (resume) split_ = resume->checkpoint.split;
  const bool is_known = split_.size() == ranks && std::ranges::max(split_) > 0;
  // In the earlier start, batch norms may have shared their statistics differently.
  const BatchSplit split = is_known ? with_first_samples(BatchSplit(split_), experiment_, *data_.train)
                                    : measured_split(*strategy_, experiment_, *data_.train);
  split_ = split.weights();
  strategy_->set_split(split);
}

void Trainer::restore(const ResumePoint& resume) {
  const Checkpoint& checkpoint = resume.checkpoint;
  require_same_training(identity_of(experiment_, *data_.train), resume);
  require_possible_position(resume, loader_->batches_per_epoch());
  const parallel::TrainingState own = strategy_->training_state();
  if (is_main()) {
    nn::require_same_tensors(own.model, checkpoint.state.model, (resume.folder / "model.safetensors").string());
    require_same_kept(own.optimizer, checkpoint.state.optimizer, (resume.folder / "optimizer.safetensors").string());
    nn::require_same_tensors(own.optimizer, checkpoint.state.optimizer,
                             (resume.folder / "optimizer.safetensors").string());
  }
  strategy_->restore(checkpoint.state);
  position_ = checkpoint.position;
  schedule_->scale_by(position_.plateau.scale);
  saved_at_ = position_.mark();
  saved_ = resume.folder;
  if (!finished()) position_.reported = false;
  // If the number of devices has changed, the costs of a begun epoch mean nothing for the new devices.
  if (position_.costs.size() != static_cast<size_t>(strategy_->world_size())) position_.costs.clear();
}

void Trainer::load_weights(const std::vector<nn::NamedValues>& tensors, const std::string& where) {
  train::load_weights(*strategy_, tensors, where, experiment_.job);
}

int64_t Trainer::planned_epochs() const {
  if (experiment_.epochs) return *experiment_.epochs;
  const int64_t batches = loader_->batches_per_epoch();
  return (*experiment_.steps + batches - 1) / batches;
}

bool Trainer::finished() const {
  if (experiment_.epochs) return position_.epochs >= *experiment_.epochs;
  return position_.step >= *experiment_.steps && (position_.batches == 0 || position_.reported);
}

int Trainer::signal_of_job(const StopSignal& stop) const {
  return experiment_.job == nullptr ? stop.load() : experiment_.job->group.largest(stop.load());
}

void Trainer::wait_for_job() const {
  if (experiment_.job != nullptr) experiment_.job->group.largest(0);
}

TrainingOutcome Trainer::run(RunDirectory* directory, TrainingObserver& observer, const StopSignal& stop) {
  DPTRAIN_CHECK(!experiment_.strategy.trial_steps, "strategy {} has no choice yet", experiment_.strategy.name);
  // What one process did alone before must not count as time of the first common step.
  wait_for_job();
  const auto start = Clock::now();
  TrainingOutcome outcome;
  outcome.epochs = position_.epochs;
  if (experiment_.traced) begin_trace(directory, observer);
  if (data_.validation != nullptr) count_earlier_validations(directory);
  if (experiment_.tensorboard && directory != nullptr)
    tensorboard_.emplace(*directory, position_.step + 1, experiment_.precision);
  while (!is_over() && outcome.signal == 0) {
    train_epoch(directory, observer, stop);
    outcome.signal = signal_of_job(stop);
    if (outcome.signal != 0) break;
    require_same_weights();
    compared_ = true;
    EpochMetrics metrics = metrics_of_epoch();
    if (!evaluate_epoch(metrics, directory, observer, stop)) {
      // An epoch ends only with its evaluation, so a resumed training run begins with that.
      outcome.signal = signal_of_job(stop);
      break;
    }
    const HashedWeights weights = hashed_weights();
    if (!weights.finite) report_diverged_weights(last_step());
    metrics.weights_hash = outcome.weights_hash = weights.hash;
    if (directory != nullptr) {
      directory->append_metrics(metrics.json());
      if (tensorboard_) tensorboard_->add_epoch(metrics);
      observer.on_epoch(metrics);
    }
    const bool is_kept = checkpoint_is_due() || is_best(metrics);
    const bool is_reduced = metrics.validation && reduce_rate_after(*metrics.validation);
    end_epoch();
    if (is_kept) save(directory, observer);
    if (metrics.validation) count_validation(metrics, directory);
    if (is_reduced && !is_over()) observer.on_reduced_rate(schedule_->rate(position_.step + 1));
    if (directory != nullptr)
      if (const auto warning = chance_.warning_after(metrics, is_over())) observer.on_warning(*warning);
    outcome.epochs = metrics.epoch;
    outcome.last_epoch = std::move(metrics);
    outcome.signal = signal_of_job(stop);
  }
  // A signal after the last step has nothing left to stop. SIGPIPE still counts, because the reader has missed the last
  // row.
  if (is_over() && outcome.signal != SIGPIPE) outcome.signal = 0;
  if (trace_) end_trace(directory, observer);
  outcome.weights = save(directory, observer);
  outcome.best = validation_.best();
  if (outcome.best && directory != nullptr)
    outcome.best_is_linked = linked_best(directory->checkpoints()) == checkpoint_name(outcome.best->step);
  outcome.stopped_early = stopped_early_;
  if (directory != nullptr) outcome.last_line = directory->last_metrics();
  const bool within_epoch = position_.batches > 0 && !position_.reported;
  outcome.steps = position_.step;
  outcome.sum_ways = strategy_->sum_ways();
  // All processes take part in reading the weights.
  if (within_epoch || !outcome.last_epoch) {
    outcome.weights_hash = hashed_weights().hash;
  }
  outcome.seconds = seconds_since(start);
  return outcome;
}

std::vector<nn::NamedValues> Trainer::state_dict() { return strategy_->state_dict(); }

void Trainer::require_same_weights() {
  if (strategy_->world_size() == 1) return;
  auto digests = strategy_->weight_digests();
  if (experiment_.job != nullptr) digests = gather_weight_digests(experiment_.job->group, digests);
  if (const auto difference = parallel::find_weight_difference(digests))
    report_difference(*difference, last_step(), rank_name());
}

Trainer::HashedWeights Trainer::hashed_weights() {
  WeightsHash hash;
  bool finite = true;
  strategy_->for_each_state([&](const nn::NamedValues& tensor) {
    if (!is_main()) return;
    finite = finite && are_finite(tensor.values);
    hash.add(tensor);
  });
  return {.hash = is_main() ? hash.hex_digest() : "", .finite = finite};
}

void Trainer::end_epoch() {
  if (position_.batches == loader_->batches_per_epoch())
    position_ = {.step = position_.step,
                 .epochs = position_.epochs + 1,
                 .plateau = position_.plateau,
                 .learning_rate = position_.learning_rate};
  else
    position_.reported = true;
}

EpochMetrics Trainer::metrics_of_epoch() {
  EpochMetrics metrics{.run = experiment_.name,
                       .strategy = experiment_.strategy.name,
                       .epoch = position_.epochs + 1,
                       .step = position_.step,
                       .world_size = strategy_->world_size(),
                       .global_batch = experiment_.batch_size,
                       .learning_rate = position_.learning_rate,
                       .train = {.score = position_.score, .seconds = position_.seconds},
                       .validation = {},
                       .test = {},
                       .time = {},
                       .devices = {},
                       .straggler = {},
                       .store = strategy_->store(),
                       .pipeline = strategy_->take_pipeline_figures(),
                       .staleness = is_main() ? strategy_->take_staleness() : std::nullopt,
                       .batch_norm = {.mode = experiment_.batch_norm, .spread = strategy_->statistics_spread()},
                       .weights_hash = {}};
  std::vector<RankPlace> places;
  for (size_t rank = 0; rank < position_.costs.size(); ++rank) places.push_back(experiment_.place(rank));
  add_costs(metrics, position_.costs, places, position_.data_wait_s);
  return metrics;
}

}  // namespace dptrain::train
