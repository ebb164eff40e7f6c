#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "config/yaml_bytes.h"
#include "device/device_list.h"
#include "models/frozen.h"
#include "models/parameter_groups.h"
#include "train/arithmetic_settings.h"
#include "train/experiment.h"
#include "train/init_setting.h"
#include "train/learning_settings.h"

namespace dptrain::train {
namespace {

struct BatchSizes {
  int64_t batch = 1;
  int64_t accumulate = 1;
};

/// Advice for a batch of at least `shares` samples: how many samples each share needs, or which smaller batch is
/// divisible. `split` names the shares.
std::string equal_parts(int64_t batch, int64_t shares, const std::string& split) {
  const int64_t fewer = batch / shares * shares;
  if (fewer == batch) return fmt::format("batch_size {} on {} needs {} each", batch, split, batch / shares);
  return fmt::format("batch_size {} can't be divided evenly among {}, but {} and {} can", batch, split, fewer,
                     fewer + shares);
}

BatchSizes read_batch_sizes(ConfigReader& config, int64_t devices) {
  const auto whole = config.optional_integer(
      "batch_size", {.min = 1, .max = 1 << 24, .help = "samples of one optimizer step over all devices"});
  const auto each = config.optional_integer(
      "per_device_batch_size", {.min = 1, .max = 1 << 24, .help = "samples of one micro-batch on each device"});
  const int64_t accumulate = config.integer(
      "accumulate", 1, {.min = 1, .max = 1 << 24, .help = "micro-batches that a step's gradients are summed over"});
  if (config.describing()) return {};
  const int64_t shares = devices * accumulate;
  if (!whole && !each) {
    if (!config.has("batch_size") && !config.has("per_device_batch_size"))
      config.mistake("batch_size", "required, but absent", "",
                     "write batch_size: <samples of one step over all devices>");
    return {.batch = shares, .accumulate = accumulate};
  }
  const std::string split = accumulate > 1 ? fmt::format("{} devices and {} micro-batches", devices, accumulate)
                                           : fmt::format("{} devices", devices);
  const int64_t batch = whole.value_or(each.value_or(1) * shares);
  if (batch < shares)
    config.mistake("batch_size", fmt::format("a batch needs at least one sample for each of the {}", split),
                   fmt::format("{}", batch),
                   accumulate > 1 ? "use a larger batch or accumulate less" : "use a larger batch or fewer devices");
  else if (whole && each && *whole != *each * shares)
    config.mistake("per_device_batch_size", equal_parts(*whole, shares, split), fmt::format("{}", *each),
                   fmt::format("leave one of them out, or write batch_size: {}", *each * shares));
  return {.batch = batch, .accumulate = accumulate};
}

bool names_a_folder(const std::string& name) {
  const auto forbidden = [](unsigned char c) { return c == '/' || c < 0x20 || c == 0x7f; };
  return !name.empty() && name != "." && name != ".." && std::ranges::none_of(name, forbidden) && !first_bad_byte(name);
}

/// Reads the subject of the training: name, seed, model, data set.
void read_subject(ConfigReader& config, const std::string& default_name, Experiment& experiment) {
  experiment.name =
      config.text("name", default_name, "the run's name; its directory is runs/<name> unless --out says otherwise");
  config.default_varies("name");
  if (!config.describing() && !names_a_folder(experiment.name))
    config.mistake("name", "expected the name of a folder in UTF-8: no slash, no control character, not '.' or '..'",
                   fmt::format("'{}'", experiment.name), "choose another one with name: or --set name=...");
  experiment.seed = static_cast<uint64_t>(config.integer("seed", 0, {.min = 0, .help = "seed of everything random"}));
  experiment.model = models::read_model(config);
  DatasetRequest request{.seed = experiment.seed};
  if (const auto& text = experiment.model.text)
    request.text = TextSizes{.vocabulary = text->vocabulary, .sequence = text->sequence};
  experiment.dataset = read_dataset(config, request);
  experiment.augmentations = read_augmentations(config, experiment.dataset, experiment.seed);
}

/// Reads how `devices` share a step.
void read_sharing(ConfigReader& config, int devices, int processes, Experiment& experiment) {
  const BatchSizes sizes = read_batch_sizes(config, devices);
  experiment.batch_size = sizes.batch;
  experiment.accumulate = sizes.accumulate;
  experiment.strategy = parallel::read_strategy(
      config, {.devices = devices, .processes = processes, .batch_size = sizes.batch, .accumulate = sizes.accumulate});
  experiment.split = read_split(config, devices);
  const int of_pipeline = experiment.strategy.devices_of_part();
  for (const int of_process : experiment.devices_of_processes)
    if (experiment.is_partitioned() && of_process % of_pipeline != 0)
      config.mistake("dataset",
                     fmt::format("with partition: by_process every process needs whole pipelines, of {} devices each",
                                 of_pipeline),
                     fmt::format("{} devices", of_process), "write partition: global");
}

CheckpointSettings read_checkpoint_settings(ConfigReader& config) {
  CheckpointSettings settings;
  config.section(
      "checkpoint",
      [&](ConfigReader& options) {
        settings.every_epochs =
            options.integer("every_epochs", 1, {.min = 0, .help = "epochs between checkpoints; 0: only at the end"});
        settings.every_steps =
            options.integer("every_steps", 0, {.min = 0, .help = "steps between checkpoints as well; 0: none"});
        settings.keep = options.integer(
            "keep", 3,
            {.min = 2, .help = "how many of the newest are kept: if one turns out damaged, the one before it is used"});
      },
      "files from which a run can be resumed");
  return settings;
}

/// Reports what the strategy can't do of this training.
void refuse_by_strategy(ConfigReader& config, const Experiment& experiment) {
  if (!experiment.strategy.refuse_settings || config.describing()) return;
  parallel::TrainingSettings settings{.has_gpus = lists(experiment.devices, DeviceKind::cuda),
                                      .clip_norm = experiment.clip_norm,
                                      .optimizer = experiment.optimizer.name,
                                      .measures_layers = experiment.optimizer.measures,
                                      .precision = experiment.precision,
                                      .average_decay = experiment.average_decay,
                                      .batch_norm = experiment.batch_norm,
                                      .shards = experiment.shards};
  if (experiment.split.measured || experiment.split.weights)
    settings.split = experiment.split.measured ? "auto" : "weights";
  experiment.strategy.refuse_settings(config, settings);
}

/// Reads settings that change no result: steps in flight, loader threads, links, timeouts, logs, memory.
void read_machine_settings(ConfigReader& config, const ConfigJob& job, Experiment& experiment) {
  experiment.steps_in_flight = static_cast<int>(config.integer(
      "steps_in_flight", 2,
      {.min = 1, .max = 64, .help = "steps that a device is given ahead, including the one that it works on"}));
  experiment.loader_threads = static_cast<int>(
      config.integer("loader_threads", 1,
                     {.min = 1, .max = 64, .help = "threads that load the samples of each device, beside its own"}));
  experiment.links = read_links(config, experiment.devices);
  if (experiment.links && job.processes > 1)
    config.mistake("links", "a job of several processes uses its real links, expected none", "simulated ones",
                   "leave them out, or start a single process");
  experiment.timeout_s = config.number("timeout_s", 300,
                                       {.min = 1,
                                        .max = 1e7,
                                        .help = "seconds that a rank may make no progress, or that others may wait for "
                                                "it; then the run exits with code 75"});
  experiment.log_steps = config.boolean("log_steps", false, "write steps.jsonl");
  experiment.tensorboard = config.boolean("tensorboard", false, "write tb/, event files that TensorBoard reads");
  experiment.memory_limit_bytes =
      config
          .optional_integer("memory_limit",
                            {.min = 1, .help = "bytes that each CPU worker may hold", .example = 2'000'000'000})
          .value_or(0);
}

}  // namespace

Experiment read_experiment(ConfigReader& config, const std::string& default_name, const ConfigJob& job) {
  Experiment experiment;
  read_subject(config, default_name, experiment);
  const DeviceSettings on = read_device_settings(config, job);
  experiment.devices = on.devices;
  experiment.threads = on.threads;
  experiment.devices_of_processes = on.devices_of_processes;
  read_sharing(config, on.world_devices(), job.workers(), experiment);
  read_learning(config, experiment);
  read_arithmetic(config, experiment);
  refuse_by_strategy(config, experiment);
  const InitSetting init = read_init(config, experiment.seed);
  experiment.initialization = init.values;
  experiment.initial_weights = init.weights;
  experiment.frozen =
      config.texts("freeze", {}, "parameters that aren't trained, by their names or the names of their modules");
  if (!experiment.frozen.empty())
    experiment.model = models::with_frozen(std::move(experiment.model), experiment.frozen, config.where("freeze"));
  experiment.parameter_groups = models::read_parameter_groups(config);
  experiment.model = models::with_parameter_groups(std::move(experiment.model), experiment.parameter_groups);
  experiment.checkpoint = read_checkpoint_settings(config);
  experiment.eval_every = config.integer("eval_every", 1, {.min = 0, .help = "epochs between evaluations; 0: never"});
  experiment.validation = read_validation(config, experiment.schedule, experiment.eval_every, experiment.epochs);
  experiment.dataset.open_whole = experiment.dataset.open;
  experiment.dataset.open =
      opening_with(experiment.validation, std::move(experiment.dataset.open), config.where("validation"));
  read_machine_settings(config, job, experiment);
  return experiment;
}

}  // namespace dptrain::train
