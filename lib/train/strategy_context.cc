#include "train/strategy_context.h"

#include <algorithm>

#include "base/error.h"
#include "nn/tensor_forms.h"
#include "parallel/shard_runs.h"
#include "train/first_statistics.h"
#include "train/normalized_samples.h"
#include "train/run_directory.h"
#include "train/training_identity.h"
#include "train/training_job.h"

namespace dptrain::train {
namespace {

models::ModelInput input_of(const Dataset& data) {
  if (const auto* images = dynamic_cast<const ImageDataset*>(&data))
    return {.image = images->image_shape(), .classes = images->classes()};
  const auto& text = dynamic_cast<const TextDataset&>(data);
  return {.text = models::TextSizes{.vocabulary = text.vocabulary_size(), .sequence = text.sequence()}};
}

/// Whether a model that isn't placed yet has parameters. A model with a head always has an embedding as well.
bool has_parameters(nn::Model& model) {
  bool has = false;
  for (int stage = 0; stage < model.stage_count(); ++stage)
    model.stage(stage).visit_parameters([&has](const std::string&, Parameter&, const nn::Initializer&) { has = true; });
  return has;
}

/// The largest number of samples that a device computes at once.
int64_t micro_batch_samples(const Experiment& experiment) {
  const int64_t shares = experiment.accumulate * experiment.strategy.micro_batches * experiment.strategy.parts;
  return (experiment.batch_size + shares - 1) / shares;
}

/// The number of parts of a batch in each process, if each process trains on its own samples.
std::vector<int> parts_of_processes(const Experiment& experiment, const BatchSplit& split, int world_size) {
  std::vector<int> parts;
  if (!experiment.is_partitioned()) return parts;
  // A process that splits its samples itself counts as one part.
  const int of_part = experiment.strategy.devices_of_part();
  const bool one_each = of_part == 1 && split.parts() < world_size;
  const std::vector<parallel::ShardRun> runs = experiment.shards > 0 && !one_each
                                                   ? parallel::shard_runs(experiment.shards, world_size)
                                                   : std::vector<parallel::ShardRun>();
  size_t rank = 0;
  for (const int devices : experiment.devices_of_processes) {
    int of_process = one_each ? 1 : runs.empty() ? devices / of_part : 0;
    for (int device = 0; device < devices && !runs.empty(); ++device, ++rank) of_process += runs[rank].size();
    parts.push_back(of_process);
  }
  return parts;
}

}  // namespace

parallel::StrategyContext strategy_context(const Experiment& experiment, const Dataset& data) {
  return {.team = {.devices = experiment.devices,
                   .threads = experiment.threads,
                   .memory_limit_bytes = experiment.memory_limit_bytes,
                   .timeout_s = experiment.wait_timeout_s(),
                   .deterministic = experiment.deterministic,
                   .tf32 = experiment.precision == Precision::tf32,
                   .records = experiment.cuda_graphs,
                   .links = experiment.links,
                   .world = experiment.job != nullptr ? std::optional(experiment.job->ranks) : std::nullopt,
                   .has_timelines = experiment.traced.has_value(),
                   .on_hung = experiment.on_hung},
          .replica = {.model = experiment.model,
                      .input = input_of(data),
                      .convolution = experiment.convolution,
                      .initialization = experiment.initialization,
                      .optimizer = experiment.optimizer,
                      .clip_norm = experiment.clip_norm,
                      .average_decay = experiment.average_decay,
                      .label_smoothing = experiment.label_smoothing,
                      .precision = experiment.precision,
                      .recompute = experiment.recompute,
                      .steps_in_flight = experiment.steps_in_flight},
          .split = experiment.split.weights,
          .shards = experiment.shards,
          .micro_batch_samples = micro_batch_samples(experiment),
          .batch_norm = experiment.batch_norm,
          .faults = experiment.faults,
          .store_links = experiment.job != nullptr ? experiment.job->store_links : nullptr};
}

optim::Schedule schedule_of(const Experiment& experiment, int64_t batches_per_epoch) {
  return {experiment.schedule, experiment.learning_rate, batches_per_epoch,
          experiment.steps ? *experiment.steps : *experiment.epochs * batches_per_epoch};
}

BatchLoaderOptions loader_options(const Experiment& experiment, parallel::Strategy& strategy) {
  const BatchSplit split = strategy.batch_split();
  return {.batch_size = experiment.batch_size,
          .micro_batches = experiment.accumulate * experiment.strategy.micro_batches,
          .seed = experiment.seed,
          .shuffle = experiment.dataset.order.shuffle,
          .augmentations = experiment.augmentations,
          .devices = strategy.batch_devices(),
          .first_part = strategy.first_part(),
          .split = split,
          .parts_of_processes = parts_of_processes(experiment, split, strategy.world_size()),
          // A batch that the strategy already has is loaded ahead, too, and holds memory on its devices.
          .batches_ahead = experiment.steps_in_flight > 1 ? 1 : 2,
          .threads = experiment.loader_threads * strategy.ranks()};
}

BatchSplit measured_split(parallel::Strategy& strategy, const Experiment& experiment, const Dataset& data) {
  const int64_t samples = std::max<int64_t>(1, experiment.batch_size / experiment.accumulate / strategy.world_size());
  return with_first_samples(split_of_speeds(strategy.measure_speeds(data, samples)), experiment, data);
}

std::vector<nn::NamedValues> whole_model(parallel::Strategy& strategy, const TrainingJob* job) {
  auto own = strategy.state_dict();
  if (job == nullptr) return own;
  // Only the main process needs the whole model's values.
  auto whole = nn::tensors_of_forms(job->group.from_main(nn::forms_text(own)));
  const auto values_of = [&](const std::string& name) -> const std::vector<float>* {
    const auto found = std::ranges::find(own, name, &nn::NamedValues::name);
    return found == own.end() ? nullptr : &found->values;
  };
  for (nn::NamedValues& tensor : whole) {
    const auto* values = values_of(tensor.name);
    // A process may hold a tied tensor under only one of its names.
    if (values == nullptr && !tensor.tied_to.empty()) values = values_of(tensor.tied_to);
    for (const nn::NamedValues& tied : whole)
      if (values == nullptr && tied.tied_to == tensor.name) values = values_of(tied.name);
    tensor.values = values != nullptr ? *values : std::vector<float>(static_cast<size_t>(tensor.shape.elements()));
  }
  return whole;
}

void load_weights(parallel::Strategy& strategy, const std::vector<nn::NamedValues>& tensors, const std::string& where,
                  const TrainingJob* job, const std::string& advice) {
  const auto expected = whole_model(strategy, job);
  const auto complete = nn::with_tied_names(expected, tensors, where);
  nn::require_same_tensors(expected, complete, where, advice);
  strategy.restore({.model = complete, .optimizer = {}, .average = {}, .loss_scale = {}});
}

void require_model_fits(const Experiment& experiment, const Dataset& data) {
  for (const DeviceId& id : experiment.devices) {
    const auto device = open_device(id);
    const auto model =
        experiment.model.build({.device = *device, .convolution = experiment.convolution}, input_of(data));
    if (!has_parameters(*model))
      throw Error(ExitCode::config, Mistake{.where = "model.layers",
                                            .expected = "expected a layer with weights to train",
                                            .got = "none",
                                            .advice = "end with linear: classes"});
    if (experiment.strategy.require_fit) experiment.strategy.require_fit(*model);
  }
}

void require_normalizable(const Experiment& experiment, const Dataset& data) {
  require_first_samples(experiment, data);
  require_samples_to_normalize(experiment, data);
}

void require_trainable(const Experiment& experiment, const Dataset& data) {
  require_model_fits(experiment, data);
  require_normalizable(experiment, data);
}

}  // namespace dptrain::train
