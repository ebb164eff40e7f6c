#include "train/strategy_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "train/strategy_candidates.h"
#include "train/strategy_context.h"
#include "train/trial_training.h"

namespace dptrain::train {
namespace {

/// Tries the candidates and chooses one.
class StrategyTrials {
 public:
  StrategyTrials(const Experiment& written, const TrialsRequest& request)
      : written_(written),
        request_(request),
        candidates_(strategy_candidates(request.config, written, *request.data.train)),
        costs_(candidates_.size()) {}

  /// Runs the trials. Returns the signal that stopped them, or 0.
  int run() {
    if (written_.devices.size() == 1) {
      candidates_.front().trial.verdict = TrialVerdict::chosen;
      candidates_.front().trial.reason = "one device allows no other strategy";
      return 0;
    }
    std::vector<size_t> all;
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (candidates_[i].is_to_be_tried()) all.push_back(i);
    if (!try_each(all)) return request_.stop.load();
    require_one_that_trains();
    std::vector<size_t> near = contenders(trials());
    std::ranges::reverse(near);
    if (near.size() > 1 && !try_each(near)) return request_.stop.load();
    require_one_that_trains();
    take_verdicts();
    if (may_split() && !try_split()) return request_.stop.load();
    return 0;
  }

  /// The experiment under the chosen strategy.
  Experiment chosen() const {
    Experiment experiment = candidates_[chosen_].experiment;
    const StrategyTrial& trial = candidates_[chosen_].trial;
    experiment.choice = StrategyChoice{.strategy = trial.strategy, .split = trial.split, .trials = trials()};
    return experiment;
  }

 private:
  /// Tries these candidates in order, and marks those that fail. Returns false after a signal.
  bool try_each(const std::vector<size_t>& indices) {
    for (size_t number = 0; number < indices.size(); ++number) {
      StrategyCandidate& candidate = candidates_[indices[number]];
      request_.observer.on_trial(candidate.trial.strategy, number + 1, indices.size());
      try {
        if (!try_one(candidate, costs_[indices[number]])) return false;
      } catch (const Error& error) {
        const bool is_unfit = error.code() == ExitCode::config || error.code() == ExitCode::device;
        if (!is_unfit)
          throw Error(error.code(), fmt::format("trial of {}: {}", candidate.trial.strategy, error.what()));
        candidate.trial.figures = std::nullopt;
        candidate.trial.verdict = TrialVerdict::failed;
        candidate.trial.reason = error.what();
        if (!first_failure_) first_failure_ = error.code();
      }
    }
    return true;
  }

  bool try_one(StrategyCandidate& candidate, TrialCosts& costs) {
    const Experiment& experiment = candidate.experiment;
    require_trainable(experiment, *request_.data.train);
    TrialTraining training(experiment, request_.data);
    for (int64_t step = 0; step < kWarmUpSteps + *written_.strategy.trial_steps; ++step) {
      if (request_.stop.load() != 0) return false;
      if (step == kWarmUpSteps) training.count_costs(costs, true);
      const double seconds = training.train_step();
      if (step >= kWarmUpSteps) costs.step_seconds.push_back(seconds);
    }
    training.count_costs(costs, false);
    candidate.trial.figures = costs.figures(std::min(experiment.batch_size, request_.data.train->samples()));
    return true;
  }

  void require_one_that_trains() const {
    const auto trains = [](const StrategyCandidate& candidate) { return candidate.trial.figures.has_value(); };
    if (std::ranges::any_of(candidates_, trains)) return;
    const StrategyTrial& first = candidates_.front().trial;
    throw Error(first_failure_.value_or(ExitCode::config),
                fmt::format("strategy: auto: none of {} candidates can train this; the first, {}: {}",
                            candidates_.size(), first.strategy, first.reason));
  }

  std::vector<StrategyTrial> trials() const {
    std::vector<StrategyTrial> all;
    for (const StrategyCandidate& candidate : candidates_) all.push_back(candidate.trial);
    return all;
  }

  void take_verdicts() {
    std::vector<StrategyTrial> all = trials();
    chosen_ = choose(all);
    for (size_t i = 0; i < all.size(); ++i) candidates_[i].trial = std::move(all[i]);
  }

  /// Whether a measured split is worth a trial: devices are unlike, the configuration has no split, and the strategy
  /// supports one.
  bool may_split() const {
    const auto kind = [](const DeviceId& device) { return device.kind; };
    const bool alike =
        std::ranges::adjacent_find(written_.threads, std::ranges::not_equal_to()) == written_.threads.end() &&
        std::ranges::adjacent_find(written_.devices, std::ranges::not_equal_to(), kind) == written_.devices.end();
    return !written_split(request_.config) && !alike && written_.shards == 0 &&
           !candidates_[chosen_].experiment.strategy.is_pipeline();
  }

  /// Tries the chosen strategy also with a split by measured speed. Returns false after a signal.
  bool try_split() {
    const std::string strategy = candidates_[chosen_].trial.strategy;
    candidates_.push_back({.trial = {.strategy = strategy, .split = "auto"},
                           .experiment = experiment_under(request_.config, written_, strategy, "auto")});
    costs_.emplace_back();
    if (!try_each({candidates_.size() - 1})) return false;
    take_verdicts();
    return true;
  }

  const Experiment& written_;
  const TrialsRequest& request_;
  std::vector<StrategyCandidate> candidates_;
  std::vector<TrialCosts> costs_;          ///< by candidate
  std::optional<ExitCode> first_failure_;  ///< of a trial
  size_t chosen_ = 0;
};

/// Takes the choice of an earlier start of the training from its checkpoint. Returns false if there is none for this
/// number of devices.
bool keep_choice(Experiment& experiment, const TrialsRequest& request) {
  if (!request.resume) return false;
  const Checkpoint& checkpoint = request.resume->checkpoint;
  if (!checkpoint.choice || checkpoint.devices.size() != experiment.devices.size()) return false;
  const StrategyChoice& choice = *checkpoint.choice;
  try {
    const std::string split = written_split(request.config).value_or(choice.split);
    Experiment kept = experiment_under(request.config, experiment, choice.strategy, split);
    kept.choice = choice;
    experiment = std::move(kept);
    return true;
  } catch (const Error& error) {
    // The configuration has changed since then, and the strategy doesn't fit it any more.
    if (error.code() != ExitCode::config) throw;
    return false;
  }
}

}  // namespace

int choose_strategy(Experiment& experiment, const TrialsRequest& request) {
  if (!experiment.strategy.trial_steps) return 0;
  if (!keep_choice(experiment, request)) {
    StrategyTrials trials(experiment, request);
    const int signal = trials.run();
    if (signal != 0) return signal;
    experiment = trials.chosen();
  }
  request.observer.on_choice(*experiment.choice);
  return 0;
}

}  // namespace dptrain::train
