#include "train/trainer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>

#include "base/clock.h"
#include "base/error.h"
#include "train/safetensors.h"

namespace dptrain::train {
namespace {

using parallel::Phase;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::unique_ptr<parallel::Strategy> make_strategy(const Experiment& experiment, const ImageDataset& data) {
  return experiment.strategy.make({.team = {.devices = experiment.devices,
                                            .threads = experiment.threads,
                                            .memory_limit_bytes = experiment.memory_limit_bytes,
                                            .deterministic = experiment.deterministic,
                                            .tf32 = experiment.precision == Precision::tf32},
                                   .replica = {.model = experiment.model,
                                               .input = {.image = data.image_shape(), .classes = data.classes()},
                                               .convolution = experiment.convolution,
                                               .initialization = experiment.initialization,
                                               .optimizer = experiment.optimizer,
                                               .clip_norm = experiment.clip_norm,
                                               .average_decay = experiment.average_decay,
                                               .precision = experiment.precision,
                                               .steps_in_flight = experiment.steps_in_flight}});
}

}  // namespace

/// An epoch while it runs.
struct Trainer::Epoch {
  int64_t number = 0;
  Pass train;
  std::deque<parallel::StepNumbers> under_way = {};  ///< steps whose score hasn't come yet
  std::optional<Pass> test;
  double data_wait_s = 0;
  double learning_rate = 0;  ///< of its last step
  bool stopped = false;
};

void require_model_fits(const Experiment& experiment, const ImageDataset& data) {
  for (const DeviceId& id : experiment.devices) {
    const auto device = open_device(id);
    experiment.model.build({.device = *device, .convolution = experiment.convolution},
                           {.image = data.image_shape(), .classes = data.classes()});
  }
}

Trainer::Trainer(const Experiment& experiment, const Datasets& data)
    : experiment_(experiment), data_(data), strategy_(make_strategy(experiment, *data.train)) {
  loader_ = std::make_unique<BatchLoader>(data_.train, BatchLoaderOptions{.batch_size = experiment.batch_size,
                                                                          .micro_batches = experiment.accumulate,
                                                                          .seed = experiment.seed,
                                                                          .shuffle = experiment.dataset.shuffle,
                                                                          .devices = strategy_->batch_devices()});
  const int64_t batches = loader_->batches_per_epoch();
  schedule_.emplace(experiment.schedule, experiment.learning_rate, batches,
                    experiment.steps ? *experiment.steps : *experiment.epochs * batches);
}

int64_t Trainer::planned_epochs() const {
  if (experiment_.epochs) return *experiment_.epochs;
  const int64_t batches = loader_->batches_per_epoch();
  return (*experiment_.steps + batches - 1) / batches;
}

bool Trainer::finished(int64_t epoch) const {
  return experiment_.epochs ? epoch > *experiment_.epochs : step_ >= *experiment_.steps;
}

TrainingOutcome Trainer::run(RunDirectory& directory, TrainingObserver& observer, const StopSignal& stop) {
  const auto start = Clock::now();
  TrainingOutcome outcome;
  std::vector<nn::NamedValues> tensors;  // of the last whole epoch, until training goes on
  for (int64_t number = 1; !finished(number) && outcome.signal == 0; ++number) {
    Epoch epoch{.number = number, .train = {}, .test = {}};
    tensors.clear();
    train_epoch(epoch, directory, observer, stop);
    if (epoch.stopped) {
      outcome.signal = stop.load();
      break;
    }
    EpochMetrics metrics = metrics_of(epoch);
    if (experiment_.eval_every > 0 && number % experiment_.eval_every == 0) {
      const auto begun = Clock::now();
      const auto score = strategy_->evaluate(*data_.test, [&stop] { return stop.load() != 0; });
      if (score) require_finite(*score, {.step = step_, .epoch = number});
      if (score) metrics.test = Pass{.score = *score, .seconds = seconds_since(begun)};
    }
    tensors = finite_weights({.step = step_, .epoch = number});
    metrics.weights_hash = outcome.weights_hash = weights_hash(tensors);
    directory.append_metrics(metrics.json());
    observer.on_epoch(metrics);
    outcome.epochs = number;
    outcome.last_epoch = std::move(metrics);
    outcome.signal = stop.load();
  }
  if (tensors.empty()) {
    tensors = finite_weights({.step = step_, .epoch = outcome.epochs});
    outcome.weights_hash = weights_hash(tensors);
  }
  outcome.weights = directory.write_weights(step_, tensors);
  outcome.steps = step_;
  outcome.seconds = seconds_since(start);
  return outcome;
}

void Trainer::train_epoch(Epoch& epoch, RunDirectory& directory, TrainingObserver& observer, const StopSignal& stop) {
  const int64_t samples = data_.train->samples();
  for (int rank = 0; rank < strategy_->ranks(); ++rank) strategy_->take_costs(rank);
  loader_->start_epoch(epoch.number);
  const auto begun = Clock::now();
  while (!experiment_.steps || step_ < *experiment_.steps) {
    const auto asked = Clock::now();
    const std::unique_ptr<Batch> batch = next_batch();
    epoch.data_wait_s += seconds_since(asked);
    if (batch == nullptr) break;
    const parallel::StepNumbers numbers{
        .step = step_ + 1, .epoch = epoch.number, .learning_rate = schedule_->rate(step_ + 1)};
    ++step_;
    epoch.learning_rate = numbers.learning_rate;
    strategy_->train_step(*batch, numbers);
    epoch.under_way.push_back(numbers);
    take_scores(epoch, directory, false);
    epoch.train.seconds = seconds_since(begun);
    const int64_t epochs_after = planned_epochs() - epoch.number;
    int64_t samples_left = samples - epoch.train.score.samples + epochs_after * samples;
    if (experiment_.steps) samples_left = std::min(samples_left, (*experiment_.steps - step_) * experiment_.batch_size);
    // A GPU's first scores come a few steps later.
    const double speed = epoch.train.samples_per_s();
    const double left = speed > 0 ? static_cast<double>(samples_left) / speed : 0;
    observer.on_step({.epoch = epoch.number,
                      .epochs = planned_epochs(),
                      .samples_done = epoch.train.score.samples,
                      .samples_of_epoch = samples,
                      .seconds = epoch.train.seconds,
                      .mean_loss = epoch.train.score.mean_loss(),
                      .seconds_left = left});
    if (stop.load() != 0) {
      epoch.stopped = true;
      break;
    }
  }
  take_scores(epoch, directory, true);
  epoch.train.seconds = seconds_since(begun);
}

void Trainer::take_scores(Epoch& epoch, RunDirectory& directory, bool all) {
  for (const parallel::Score& score : strategy_->take_scores(all)) {
    const parallel::StepNumbers numbers = epoch.under_way.front();
    epoch.under_way.pop_front();
    require_finite(score, numbers);
    epoch.train.score += score;
    if (experiment_.log_steps) directory.append_step(step_json(numbers, score));
  }
}

std::unique_ptr<Batch> Trainer::next_batch() {
  try {
    return loader_->next();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("step {}, loading its batch: {}", step_ + 1, error.what()));
  }
}

void Trainer::report_divergence(const char* what, const parallel::StepNumbers& numbers) const {
  throw Error(ExitCode::diverged,
              Mistake{.where = fmt::format("step {}, epoch {}", numbers.step, numbers.epoch),
                      .expected = fmt::format("training diverged: {} no longer finite", what),
                      .got = "",
                      .advice = fmt::format("use a learning rate below {}", experiment_.learning_rate)});
}

void Trainer::require_finite(const parallel::Score& score, const parallel::StepNumbers& numbers) const {
  if (!std::isfinite(score.loss_sum)) report_divergence("the loss is", numbers);
}

std::vector<nn::NamedValues> Trainer::finite_weights(const parallel::StepNumbers& numbers) {
  auto tensors = strategy_->state_dict();
  for (const auto& tensor : tensors)
    if (!std::ranges::all_of(tensor.values, [](float value) { return std::isfinite(value); }))
      report_divergence("the weights are", numbers);
  return tensors;
}

EpochMetrics Trainer::metrics_of(const Epoch& epoch) {
  EpochMetrics metrics{.run = experiment_.name,
                       .strategy = experiment_.strategy.name,
                       .epoch = epoch.number,
                       .step = step_,
                       .world_size = strategy_->ranks(),
                       .global_batch = experiment_.batch_size,
                       .learning_rate = epoch.learning_rate,
                       .train = epoch.train,
                       .test = {},
                       .time = {},
                       .devices = {},
                       .weights_hash = {}};
  const double seconds = epoch.train.seconds, ranks = strategy_->ranks();
  for (int rank = 0; rank < strategy_->ranks(); ++rank) {
    const parallel::RankCosts costs = strategy_->take_costs(rank);
    const double compute = costs.times[Phase::compute], optimizer = costs.times[Phase::optimizer];
    metrics.time.compute_s += compute / ranks;
    metrics.time.exposed_comm_s += costs.times[Phase::communication] / ranks;
    metrics.time.optimizer_s += optimizer / ranks;
    metrics.skipped_steps = std::max(metrics.skipped_steps, costs.skipped_steps);
    metrics.comm_bytes += costs.communication.bytes;
    metrics.collectives = std::max(metrics.collectives, costs.communication.collectives);
    metrics.devices.push_back({.device = strategy_->device(rank).name(),
                               .host = host_name(),
                               .rank = rank,
                               .samples = costs.samples,
                               .busy = seconds > 0 ? (compute + optimizer) / seconds : 0,
                               .peak_bytes = costs.peak_bytes,
                               .memory = costs.memory_at_peak});
  }
  // While the host waits for data a GPU may be at work on the steps before.
  const double idle = seconds - metrics.time.compute_s - metrics.time.exposed_comm_s - metrics.time.optimizer_s;
  metrics.time.data_wait_s = std::clamp(epoch.data_wait_s, 0.0, std::max(idle, 0.0));
  metrics.time.other_s = idle - metrics.time.data_wait_s;
  return metrics;
}

}  // namespace dptrain::train
