#include "train/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/host_name.h"
#include "config/f32_range.h"
#include "config/yaml_bytes.h"
#include "device/cpu_device.h"
#include "parallel/process_store.h"
#include "train/init_setting.h"
#include "train/shards_setting.h"

namespace dptrain::train {
namespace {

/// Their samples can be counted, whatever the batch.
constexpr int64_t kMostSteps = 100'000'000'000;

struct BatchSizes {
  int64_t batch = 1;
  int64_t accumulate = 1;
};

/// What a batch of at least as many samples has for each of `shares`, which `split` names: as many, or no equal number.
std::string equal_parts(int64_t batch, int64_t shares, const std::string& split) {
  const int64_t fewer = batch / shares * shares;
  if (fewer == batch) return fmt::format("batch_size {} on {} needs {} each", batch, split, batch / shares);
  return fmt::format("batch_size {} on {} has no equal parts, as {} and {} have", batch, split, fewer, fewer + shares);
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

/// `learning_rate`, scaled by `lr_rule`: linear as Goyal et al. (2017), by the square root as Krizhevsky (2014).
double read_learning_rate(ConfigReader& config, int64_t batch_size) {
  const double rate = config.number("learning_rate", std::nullopt,
                                    {.min = 0, .max = kMostF32, .exclusive_min = true, .help = "of the optimizer"});
  if (!config.describing() && rate > 0 && rate < kLeastF32)
    config.mistake("learning_rate", fmt::format("expected a rate of at least {}", kLeastF32), fmt::format("{}", rate),
                   "below that it is 0 in f32");
  double reference = 1;
  const auto read_reference = [&reference](ConfigReader& options) {
    reference = static_cast<double>(options.integer(
        "reference_batch_size", std::nullopt, {.min = 1, .help = "the batch size that learning_rate is meant for"}));
  };
  const std::vector<ConfigChoice> choices = {{"none", "as it is", {}},
                                             {"linear", "times batch_size / reference_batch_size", read_reference},
                                             {"sqrt", "times the square root of that", read_reference}};
  const std::string rule = config.named("lr_rule", choices, "none", "how the rate follows the batch size");
  if (config.describing() || rule == "none") return rate;
  const double ratio = static_cast<double>(batch_size) / reference;
  return rate * (rule == "linear" ? ratio : std::sqrt(ratio));
}

bool lists(const std::vector<DeviceId>& devices, DeviceKind kind) {
  return std::ranges::any_of(devices, [kind](const DeviceId& id) { return id.kind == kind; });
}

Precision read_precision(ConfigReader& config, const std::vector<DeviceId>& devices) {
  constexpr std::array kPrecisions = {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16};
  std::vector<std::string> names;
  for (const Precision precision : kPrecisions) names.emplace_back(precision_name(precision));
  const std::string name = config.one_of("precision", names, "fp32",
                                         "of activations and products; weights and sums are f32 in all. tf32 and fp16 "
                                         "are for GPUs alone");
  const auto found = std::ranges::find(kPrecisions, name, precision_name);
  if (config.describing() || found == kPrecisions.end() || *found == Precision::fp32) return Precision::fp32;
  const bool of_gpus = *found != Precision::bf16;
  if (of_gpus && lists(devices, DeviceKind::cpu))
    config.mistake("precision", "CPU workers compute in fp32 or bf16", name, "write one of these, or list GPUs alone");
  return *found;
}

parallel::Recompute read_recompute(ConfigReader& config) {
  const std::vector<std::string> names = {"auto", "batch_norm", "none"};
  const std::string name = config.one_of("recompute", names, "auto",
                                         "what is computed again in the backward pass instead of kept: the outputs of "
                                         "batch norms, or nothing; auto is batch_norm on CPU workers and none on GPUs");
  if (name == "batch_norm") return parallel::Recompute::batch_norm;
  return name == "none" ? parallel::Recompute::none : parallel::Recompute::automatic;
}

parallel::BatchNormMode read_batch_norm(ConfigReader& config) {
  std::vector<std::string> names;
  for (const parallel::BatchNormMode mode : parallel::kBatchNormModes)
    names.emplace_back(parallel::batch_norm_mode_name(mode));
  const std::string name = config.one_of("batch_norm", names, "local",
                                         "what batch norms share over the devices: nothing, so that the first device's "
                                         "running statistics evaluate; batch statistics; the average of running "
                                         "statistics after every step; the first device's before every step");
  const auto found = std::ranges::find(parallel::kBatchNormModes, name, parallel::batch_norm_mode_name);
  return found == std::end(parallel::kBatchNormModes) ? parallel::BatchNormMode::local : *found;
}

/// What may be asked for by name depends on the devices.
ops::ConvolutionAlgorithm read_convolution(ConfigReader& config, const Experiment& experiment) {
  const std::vector<std::string> names = {"auto", "direct", "winograd", "measured"};
  const std::string name = config.one_of("convolution", names, "auto",
                                         "how convolutions are computed; auto is a fixed rule of shape and machine on "
                                         "CPU workers, and what measuring chooses on GPUs unless deterministic");
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    config.mistake("convolution", expected, got, "write convolution: auto");
  };
  if (config.describing() || name == "auto") return ops::ConvolutionAlgorithm::automatic;
  if (name == "measured") {
    if (lists(experiment.devices, DeviceKind::cpu))
      refuse("CPU workers compute by a fixed rule", name);
    else if (experiment.deterministic)
      refuse("what measuring chooses can differ from run to run", "measured with deterministic: true");
    return ops::ConvolutionAlgorithm::automatic;
  }
  if (name == "direct") return ops::ConvolutionAlgorithm::direct;
  if (lists(experiment.devices, DeviceKind::cpu) && cpu_isa() != CpuIsa::avx512)
    refuse("winograd needs a CPU with AVX-512", cpu_isa_name(cpu_isa()));
  if (lists(experiment.devices, DeviceKind::cuda) && experiment.precision != Precision::fp32)
    refuse("winograd is computed in fp32 on a GPU",
           fmt::format("winograd with {}", precision_name(experiment.precision)));
  return ops::ConvolutionAlgorithm::winograd;
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
            {.min = 2, .help = "the newest so many are kept: where one turns out damaged, another is needed"});
      },
      "what a training can be resumed from");
  return settings;
}

void read_length(ConfigReader& config, Experiment& experiment) {
  experiment.epochs =
      config.optional_integer("epochs", {.min = 1, .max = 1000000, .help = "passes over the training set"});
  experiment.steps =
      config.optional_integer("steps", {.min = 1, .max = kMostSteps, .help = "optimizer steps, instead of epochs"});
  if (config.describing()) return;
  if (config.has("epochs") && config.has("steps"))
    config.mistake("steps", "expected epochs or steps", "both", "leave one of them out");
  if (!config.has("epochs") && !config.has("steps"))
    config.mistake("epochs", "required, but absent", "", "write epochs: <number>, or steps: <number>");
}

bool names_a_folder(const std::string& name) {
  const auto forbidden = [](unsigned char c) { return c == '/' || c < 0x20 || c == 0x7f; };
  return !name.empty() && name != "." && name != ".." && std::ranges::none_of(name, forbidden) && !first_bad_byte(name);
}

/// What processes that each update the weights when they are ready can't do together.
void refuse_out_of_step(ConfigReader& config, const Experiment& experiment) {
  if (experiment.strategy.in_step || config.describing()) return;
  const auto refuse = [&](const char* key, const std::string& got, const std::string& advice) {
    config.mistake(key, "kvstore of type dist_async waits for no other process, expected none", got,
                   advice + ", or choose type: dist_sync");
  };
  if (experiment.clip_norm) refuse("clip_norm", "a norm of all gradients", "leave it out");
  if (experiment.precision == Precision::fp16) refuse("precision", "a loss scale of all processes", "use bf16");
  if (experiment.batch_norm != parallel::BatchNormMode::local)
    refuse("batch_norm", std::string(parallel::batch_norm_mode_name(experiment.batch_norm)), "write batch_norm: local");
  if (experiment.shards > 0) refuse("shards", fmt::format("{}", experiment.shards), "leave it out");
}

/// What an update that is made bucket by bucket, in the course of the next step, can't wait for.
void refuse_deferred_updates(ConfigReader& config, const Experiment& experiment) {
  if (!experiment.strategy.defers_updates || config.describing()) return;
  const auto refuse = [&](const char* key, const std::string& expected, const std::string& got,
                          const std::string& advice) {
    config.mistake(key, fmt::format("ddp with overlap: next_forward {}", expected), got,
                   advice + ", or write overlap: true");
  };
  if (lists(experiment.devices, DeviceKind::cuda))
    refuse("devices", "updates on CPU workers alone, expected no GPU", "GPUs", "list CPU workers");
  if (experiment.clip_norm)
    refuse("clip_norm", "knows no norm of all gradients, expected none", fmt::format("{}", *experiment.clip_norm),
           "leave it out");
  if (experiment.shards > 0)
    refuse("shards", "has no shards, expected none", fmt::format("{}", experiment.shards), "leave them out");
}

}  // namespace

bool Experiment::is_partitioned() const {
  return devices_of_processes.size() > 1 && dataset.order.by_process.value_or(strategy.by_process);
}

parallel::StoreServerOptions Experiment::store_server() const {
  parallel::ReplicaSpec replica;
  replica.optimizer = optimizer;
  replica.clip_norm = clip_norm;
  replica.precision = precision;
  return parallel::server_options(replica, WorldShape(devices_of_processes), !strategy.in_step, wait_timeout_s());
}

RankPlace Experiment::place(size_t rank) const {
  return job != nullptr ? job->places[rank] : RankPlace{.device = devices[rank].name(), .host = host_name()};
}

std::string Experiment::rank_name(int rank) const {
  const RankPlace at = place(static_cast<size_t>(rank));
  return fmt::format("rank {} ({}{})", rank, at.device, job != nullptr ? " on " + at.host : "");
}

std::vector<std::string> Experiment::device_names() const {
  std::vector<std::string> names;
  const size_t ranks = job != nullptr ? job->places.size() : devices.size();
  for (size_t rank = 0; rank < ranks; ++rank) names.push_back(place(rank).device);
  return names;
}

Experiment read_experiment(ConfigReader& config, const std::string& default_name, const ConfigJob& job) {
  Experiment experiment;
  experiment.name =
      config.text("name", default_name, "the run's name; its directory is runs/<name> unless --out says otherwise");
  if (!config.describing() && !names_a_folder(experiment.name))
    config.mistake("name", "expected the name of a folder in UTF-8: no slash, no control character, not '.' or '..'",
                   fmt::format("'{}'", experiment.name), "use --out for a directory elsewhere");
  experiment.seed = static_cast<uint64_t>(config.integer("seed", 0, {.min = 0, .help = "of everything random"}));
  experiment.model = models::read_model(config);
  DatasetRequest request{.seed = experiment.seed};
  if (const auto& text = experiment.model.text)
    request.text = TextSizes{.vocabulary = text->vocabulary, .sequence = text->sequence};
  experiment.dataset = read_dataset(config, request);
  experiment.augmentations = read_augmentations(config, experiment.dataset, experiment.seed);
  const DeviceSettings on = read_device_settings(config, job);
  experiment.devices = on.devices;
  experiment.threads = on.threads;
  experiment.devices_of_processes = on.devices_of_processes;
  const int devices = on.world_devices();
  const BatchSizes sizes = read_batch_sizes(config, devices);
  experiment.strategy = parallel::read_strategy(
      config,
      {.devices = devices, .processes = job.workers(), .batch_size = sizes.batch, .accumulate = sizes.accumulate});
  experiment.split = read_split(config, devices);
  if (experiment.strategy.is_pipeline() && (experiment.split.measured || experiment.split.weights))
    config.mistake("split", fmt::format("a batch goes through the stages of {} whole", experiment.strategy.name),
                   experiment.split.measured ? "auto" : "weights", "write split: even, or stages: auto");
  const int stages = experiment.strategy.stages;
  for (const int of_process : experiment.devices_of_processes)
    if (experiment.is_partitioned() && of_process % stages != 0)
      config.mistake(
          "dataset",
          fmt::format("with partition: by_process every process needs whole pipelines, of {} devices each", stages),
          fmt::format("{} devices", of_process), "write partition: global");
  experiment.batch_size = sizes.batch;
  experiment.accumulate = sizes.accumulate;
  experiment.learning_rate = read_learning_rate(config, sizes.batch);
  experiment.schedule = optim::read_schedule(config);
  if (!config.describing() && experiment.schedule.min > experiment.learning_rate)
    config.mistake("schedule",
                   fmt::format("expected its min, the rate at the end, to be at most the learning rate, {}",
                               experiment.learning_rate),
                   fmt::format("{}", experiment.schedule.min), "write a smaller min");
  read_length(config, experiment);
  experiment.optimizer = optim::read_optimizer(config);
  experiment.clip_norm = config.optional_number(
      "clip_norm",
      {.min = 0, .max = kMostF32, .exclusive_min = true, .help = "the norm that larger gradients are brought down to"});
  experiment.label_smoothing =
      config.number("label_smoothing", 0,
                    {.min = 0, .max = 1, .exclusive_max = true, .help = "of the target, spread over all classes"});
  experiment.average_decay =
      config.optional_number("ema", {.min = 0,
                                     .max = 1,
                                     .exclusive_max = true,
                                     .help = "the decay of a moving average of weights, which evaluates",
                                     .example = 0.999});
  experiment.precision = read_precision(config, experiment.devices);
  experiment.deterministic = config.boolean("deterministic", !lists(experiment.devices, DeviceKind::cuda),
                                            "runs end in the same bits: always on CPU workers, at a price on GPUs");
  experiment.convolution = read_convolution(config, experiment);
  experiment.recompute = read_recompute(config);
  experiment.batch_norm = read_batch_norm(config);
  experiment.shards = read_shards(config, experiment);
  refuse_out_of_step(config, experiment);
  refuse_deferred_updates(config, experiment);
  const InitSetting init = read_init(config, experiment.seed);
  experiment.initialization = init.values;
  experiment.initial_weights = init.weights;
  experiment.initial_average = init.average;
  experiment.checkpoint = read_checkpoint_settings(config);
  experiment.eval_every = config.integer("eval_every", 1, {.min = 0, .help = "epochs between evaluations; 0: never"});
  experiment.steps_in_flight = static_cast<int>(config.integer(
      "steps_in_flight", 2,
      {.min = 1, .max = 64, .help = "steps that a device is given ahead, the one that it works on included"}));
  experiment.links = read_links(config, experiment.devices);
  if (experiment.links && job.processes > 1)
    config.mistake("links", "a job of several processes goes over the links that it has, expected none",
                   "simulated ones", "leave them out, or start dptrain alone");
  experiment.timeout_s = config.number(
      "timeout_s", 300,
      {.min = 1,
       .max = 1e7,
       .help =
           "seconds that a rank may make no progress for, or be waited for by others; then the training ends with 75"});
  experiment.log_steps = config.boolean("log_steps", false, "write steps.jsonl");
  experiment.memory_limit_bytes =
      config
          .optional_integer("memory_limit",
                            {.min = 1, .help = "bytes that each CPU worker may hold", .example = 2'000'000'000})
          .value_or(0);
  return experiment;
}

}  // namespace dptrain::train
