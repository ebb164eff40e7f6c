// Evaluates epochs and acts on the results; trainer.cc trains.
#include <fmt/format.h>

#include <limits>

#include "base/clock.h"
#include "base/error.h"
#include "comm/process_activity.h"
#include "train/best_link.h"
#include "train/trainer.h"

namespace dptrain::train {

bool Trainer::evaluate_epoch(EpochMetrics& metrics, RunDirectory* directory, TrainingObserver& observer,
                             const StopSignal& stop) {
  if (experiment_.eval_every == 0 || metrics.epoch % experiment_.eval_every != 0) return true;
  const std::filesystem::path saved = checkpoint_is_due() ? save(directory, observer).parent_path() : "";
  observer.on_phase(JobPhase::evaluation, metrics.step);
  const auto begun = Clock::now();
  try {
    if (data_.validation != nullptr) {
      metrics.validation = evaluate_finite(*data_.validation, directory, observer, stop);
      if (!metrics.validation) return false;
      if (!of_main(validation_.is_better(metrics.validation->score))) return true;
    }
    metrics.test = evaluate_finite(*data_.test, directory, observer, stop);
    evaluation_s_ = seconds_since(begun);
    return metrics.test.has_value();
  } catch (const Error& error) {
    if (saved.empty() || error.code() == ExitCode::diverged) throw;
    throw Error(error.code(), fmt::format("{}; epoch {} is saved in {}, and --resume begins with its evaluation",
                                          error.what(), metrics.epoch, saved.string()));
  }
}

std::optional<Pass> Trainer::evaluate_finite(const Dataset& data, RunDirectory* directory, TrainingObserver& observer,
                                             const StopSignal& stop) {
  const auto begun = Clock::now();
  const InSpan span(main_timeline(), "evaluate");
  const auto stopped = [&stop] {
    note_progress();
    return stop.load() != 0;
  };
  const auto tell = [&](int64_t samples) {
    observer.on_evaluation({.epoch = position_.epochs + 1,
                            .epochs = planned_epochs(),
                            .samples_done = samples,
                            .samples = data.samples(),
                            .seconds = seconds_since(begun)});
  };
  const std::optional<parallel::Score> score = strategy_->evaluate(data, {.stopped = stopped, .done = tell});
  if (!score) return std::nullopt;
  try {
    require_finite(*score, last_step());
  } catch (const Error&) {
    // No training run may go on from weights like these.
    if (directory != nullptr) put_aside_after(directory->checkpoints(), position_.step - 1);
    throw;
  }
  return Pass{.score = *score, .seconds = seconds_since(begun)};
}

Pass Trainer::evaluate() {
  const auto begun = Clock::now();
  const auto score = strategy_->evaluate(*data_.test, {.stopped = [] { return false; }});
  return {.score = score.value_or(parallel::Score()), .seconds = seconds_since(begun)};
}

bool Trainer::reduce_rate_after(const Pass& validation) {
  const optim::ScheduleSpec& spec = experiment_.schedule;
  // A training run that ends within an epoch will evaluate the whole epoch once it is resumed.
  const bool is_whole = position_.batches == loader_->batches_per_epoch();
  if (spec.kind != optim::ScheduleSpec::Kind::plateau || !is_whole) return false;
  const bool by_loss = experiment_.validation.monitor == Monitor::loss;
  // In a job only the main process has the score.
  const bool reduces =
      is_main() && position_.plateau.count(by_loss ? validation.score.mean_loss() : validation.score.accuracy(),
                                           spec.plateau, by_loss ? optim::Goal::lowest : optim::Goal::highest);
  if (!of_main(reduces)) return false;
  const bool is_another = schedule_->reduce();
  position_.plateau.scale = schedule_->scale();
  return is_another;
}

bool Trainer::of_main(bool says) const {
  return experiment_.job == nullptr ? says : experiment_.job->group.largest(is_main() && says ? 1 : 0) != 0;
}

bool Trainer::finished_in(const RunDirectory& directory) const {
  const int64_t epochs = position_.epochs + (position_.reported ? 1 : 0);
  return finished() || watch_of(experiment_.validation, directory.metrics(epochs)).is_over();
}

void Trainer::count_earlier_validations(RunDirectory* directory) {
  if (directory != nullptr) {
    require_place_of_best(directory->checkpoints());
    if (experiment_.validation.samples > 0) require_links(directory->checkpoints());
    validation_ = watch_of(experiment_.validation, directory->metrics(std::numeric_limits<int64_t>::max()));
    if (const auto& best = validation_.best())
      link_best(directory->checkpoints(), best->step);
    else
      unlink_best(directory->checkpoints());
  }
  stopped_early_ = of_main(validation_.is_over());
}

void Trainer::count_validation(const EpochMetrics& metrics, RunDirectory* directory) {
  if (directory != nullptr) {
    validation_.take(metrics.json());
    if (is_best(metrics)) link_best(directory->checkpoints(), metrics.step);
  }
  stopped_early_ = of_main(validation_.is_over());
}

}  // namespace dptrain::train
