// Writes checkpoints and the trace when they are due; trainer.cc trains.
#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "train/checkpoint.h"
#include "train/trainer.h"
#include "train/training_identity.h"

namespace dptrain::train {

bool Trainer::checkpoint_is_due() const {
  const int64_t epoch = position_.epochs + 1, every = experiment_.checkpoint.every_epochs;
  const bool is_last = experiment_.epochs ? epoch >= *experiment_.epochs : position_.step >= *experiment_.steps;
  return is_last || (every > 0 && epoch % every == 0);
}

Trainer::Write Trainer::due_write(const RunDirectory& directory) const {
  // The checkpoint that the training began from may belong to another run.
  std::error_code absent;
  const bool of_this_run = std::filesystem::equivalent(saved_.parent_path(), directory.checkpoints(), absent);
  if (of_this_run && saved_at_ == position_.mark()) return Write::nothing;
  return of_this_run && written_step_ == position_.step ? Write::position : Write::all;
}

std::filesystem::path Trainer::save(RunDirectory* directory, TrainingObserver& observer) {
  Write write = directory != nullptr ? due_write(*directory) : Write::nothing;
  // All processes take part when the main one writes.
  if (experiment_.job != nullptr) write = static_cast<Write>(experiment_.job->group.largest(static_cast<int>(write)));
  if (write == Write::nothing) return saved_ / "model.safetensors";
  if (write == Write::position && directory != nullptr) {
    move_checkpoint(saved_, position_);
    saved_at_ = position_.mark();
  } else if (write == Write::all) {
    save_all(directory, observer);
  }
  // Otherwise the others would go on and wait for this process's ranks with a timeout, while the disk may take any
  // time.
  wait_for_job();
  return directory != nullptr ? saved_ / "model.safetensors" : std::filesystem::path();
}

void Trainer::save_all(RunDirectory* directory, TrainingObserver& observer) {
  observer.on_phase(JobPhase::checkpoint, position_.step);
  const InSpan span(main_timeline(), "write a checkpoint");
  if (!compared_) require_same_weights();
  Checkpoint checkpoint{.identity = identity_of(experiment_, *data_.train),
                        .config_hash = config_hash_,
                        .devices = {},
                        .position = position_,
                        .split = split_,
                        .choice = experiment_.choice,
                        .state = strategy_->training_state()};
  if (directory == nullptr) return;
  checkpoint.devices = experiment_.device_names();
  require_finite(checkpoint.state.model, last_step());
  saved_ = write_checkpoint(directory->checkpoints(), checkpoint, experiment_.checkpoint.keep);
  saved_at_ = position_.mark();
  written_step_ = position_.step;
  observer.on_checkpoint(position_.step);
}

void Trainer::begin_trace(const RunDirectory* directory, TrainingObserver& observer) {
  const TracedSteps& traced = *experiment_.traced;
  const parallel::ShownSteps steps = traced.after(position_.step);
  const int64_t last = experiment_.steps.value_or(planned_epochs() * loader_->batches_per_epoch());
  if (steps.last < steps.first || steps.first > last) {
    const parallel::ShownSteps asked = traced.numbered.value_or(steps);
    const std::string trained = position_.step < last
                                    ? fmt::format("only steps {}-{} are trained", position_.step + 1, last)
                                    : "no step is left to train";
    if (directory != nullptr)
      observer.on_warning(fmt::format("trace.json won't be written: --trace asks for steps {}-{}, but {}", asked.first,
                                      asked.last, trained));
    return;
  }
  trace_.emplace(experiment_, steps);
  strategy_->show_steps(steps);
}

void Trainer::end_trace(RunDirectory* directory, TrainingObserver& observer) {
  const std::string own = trace_->events(strategy_->take_timelines(), strategy_->first_rank());
  const std::vector<std::string> all =
      experiment_.job != nullptr ? experiment_.job->group.gather(own) : std::vector<std::string>{own};
  const auto [steps, text] = std::pair(trace_->steps(), trace_->json(all, position_.step));
  trace_.reset();
  if (directory == nullptr) return;
  if (position_.step < steps.first)
    return observer.on_warning(
        fmt::format("trace.json isn't written: --trace asks for none of the steps that were trained this time, which "
                    "end with step {}",
                    position_.step));
  try {
    directory->write_trace(text);
  } catch (const Error& error) {
    // No training result is lost with the trace.
    observer.on_warning(fmt::format("trace.json isn't written: {}", error.what()));
  }
}

}  // namespace dptrain::train
