#include <fmt/format.h>

#include "comm/tree_sum.h"
#include "ops/two_bit.h"
#include "parallel/compression_options.h"
#include "parallel/data_parallel.h"
#include "parallel/ddp.h"
#include "parallel/fsdp.h"
#include "parallel/kvstore.h"
#include "parallel/local_sgd.h"
#include "parallel/pipeline_config.h"
#include "parallel/single.h"
#include "parallel/strategy.h"

namespace dptrain::parallel {
namespace {

constexpr double kMostMb = 1 << 20;  // a TiB
constexpr int kMostServers = 1024;
constexpr int64_t kMostSteps = 1'000'000'000;
constexpr double kMostOuterRate = 100;
constexpr int64_t kTrialSteps = 5;
constexpr int64_t kMostTrialSteps = 10'000;

using Make = std::function<std::unique_ptr<Strategy>(const StrategyContext&)>;

Make read_single(ConfigReader&, const StrategyRequest&, StrategySpec&) {
  return [](const StrategyContext& context) { return std::make_unique<Single>(context); };
}

Make read_data_parallel(ConfigReader& options, const StrategyRequest& request, StrategySpec&) {
  const int devices = request.devices;
  DataParallel::Options read;
  const std::vector<std::string> criteria = {"gathered", "parallel"};
  const std::string criterion =
      options.one_of("criterion", criteria, criteria[0],
                     "where the loss is computed: on one device, of all outputs; or on each device, of its own");
  read.criterion = criterion == criteria[0] ? Criterion::gathered : Criterion::parallel;
  read.output_rank = static_cast<int>(
      options.integer("output_device", 0,
                      {.min = 0,
                       .max = kMostRanks - 1,
                       .help = "where outputs are gathered and the loss is computed: a position in the device list, "
                               "from 0; with criterion: gathered"}));
  if (read.output_rank >= devices && !options.describing())
    options.mistake("output_device", fmt::format("expected a position in the device list, 0 to {}", devices - 1),
                    fmt::format("{}", read.output_rank), "name one of the devices");
  if (read.output_rank != 0 && read.criterion == Criterion::parallel)
    options.mistake("output_device", "nothing is gathered with criterion: parallel, expected none",
                    fmt::format("{}", read.output_rank), "leave it out, or write criterion: gathered");
  return [read](const StrategyContext& context) { return std::make_unique<DataParallel>(context, read); };
}

/// Reads `compress`, which so many devices can't all do.
CompressionOptions read_compression_for(ConfigReader& options, const StrategyRequest& request) {
  const CompressionOptions read = read_compression(options);
  if (read.method == CompressionOptions::Method::two_bit && request.devices > ops::kMostTwoBitRanks)
    options.mistake("compress", fmt::format("two_bit adds up the signs of at most {} devices", ops::kMostTwoBitRanks),
                    fmt::format("{}", request.devices), "choose bf16 or powersgd");
  return read;
}

/// Of ddp over processes whose devices are no ranks: what is said of ranks.
void refuse_inside(ConfigReader& options, const Ddp::Options& ddp) {
  const BucketOptions usual;
  const auto refuse = [&](const char* key, const std::string& got) {
    options.mistake(key, "with inside: data_parallel all gradients are summed at once, after backward, expected none",
                    got, "leave it out, or write inside: none");
  };
  if (ddp.buckets.bucket_mb != usual.bucket_mb) refuse("bucket_mb", fmt::format("{}", ddp.buckets.bucket_mb));
  if (ddp.buckets.first_bucket_mb != usual.first_bucket_mb)
    refuse("first_bucket_mb", fmt::format("{}", ddp.buckets.first_bucket_mb));
  if (ddp.buckets.overlap != usual.overlap) refuse("overlap", "false");
  if (ddp.buckets.defer_updates) refuse("overlap", "next_forward");
  if (ddp.find_unused)
    options.mistake("find_unused",
                    "with inside: data_parallel no parameter without a gradient is an error, expected none", "true",
                    "leave it out, or write inside: none");
  if (ddp.shard_optimizer || ddp.compress.method != CompressionOptions::Method::none)
    options.mistake("inside", "sharded optimizers and compressed sums take every device as a rank, expected none",
                    "data_parallel", "leave it out, or them");
}

Make read_ddp(ConfigReader& options, const StrategyRequest& request, StrategySpec& spec) {
  Ddp::Options ddp;
  BucketOptions& buckets = ddp.buckets;
  if (!options.word("bucket_mb", "auto", true))
    buckets.bucket_mb = options.number("bucket_mb", {},
                                       {.min = 0,
                                        .max = kMostMb,
                                        .exclusive_min = true,
                                        .help = "MiB of gradients that are reduced together; auto: at most 25, and the "
                                                "last bucket at most a tenth of all"});
  buckets.first_bucket_mb = options.number("first_bucket_mb", buckets.first_bucket_mb,
                                           {.min = 0,
                                            .max = kMostMb,
                                            .exclusive_min = true,
                                            .help = "MiB of the first bucket, so that reducing begins early"});
  buckets.defer_updates = options.word("overlap", "next_forward", false);
  if (!buckets.defer_updates)
    buckets.overlap = options.boolean("overlap", true,
                                      "reduce while backward still runs; next_forward: and while the next step's "
                                      "forward pass does, first layers first");
  spec.defers_updates = buckets.defer_updates;
  ddp.find_unused = options.boolean("find_unused", false,
                                    "parameters that a step's loss doesn't depend on are not an error: their gradient "
                                    "is zero");
  ddp.shard_optimizer = options.boolean("shard_optimizer", false,
                                        "each device has optimizer state for its part of the weights alone (ZeRO-1)");
  ddp.compress = read_compression_for(options, request);
  spec.compression = ddp.compress.method;
  const std::vector<std::string> insides = {"none", "data_parallel"};
  const bool is_inside =
      options.one_of("inside", insides, insides[0],
                     "what a process does over its own devices: none, each is a rank of ddp; data_parallel, the first "
                     "one shares out the process's samples, gathers the outputs and updates") == insides[1];
  if (ddp.shard_optimizer && ddp.compress.method != CompressionOptions::Method::none)
    options.mistake("compress", "gradients of a sharded optimizer go to their owners alone, expected none",
                    compression_name(ddp.compress.method), "leave it out, or write shard_optimizer: false");
  if (ddp.shard_optimizer && buckets.defer_updates)
    options.mistake("overlap", "a sharded optimizer updates with its step, expected true or false", "next_forward",
                    "write overlap: true, or shard_optimizer: false");
  if (is_inside) {
    refuse_inside(options, ddp);
    return
        [](const StrategyContext& context) { return std::make_unique<DataParallel>(context, DataParallel::Options{}); };
  }
  return [ddp](const StrategyContext& context) { return std::make_unique<Ddp>(context, ddp); };
}

Make read_fsdp(ConfigReader& options, const StrategyRequest&, StrategySpec& spec) {
  Fsdp::Options read;
  spec.deals_out_weights = true;
  if (!options.word("unit_mb", "auto", true))
    read.unit_mb =
        options.number("unit_mb", {},
                       {.min = 0,
                        .max = kMostMb,
                        .exclusive_min = true,
                        .help = "MiB of weights that neighboring stages are gathered together up to; auto: a "
                                "sixteenth of the model's. A stage is never cut"});
  read.reshard_after_forward =
      options.boolean("reshard_after_forward", read.reshard_after_forward,
                      "forget a unit's weights after its forward pass, and gather them again for backward; false: keep "
                      "them until then (ZeRO-2)");
  return [read](const StrategyContext& context) { return std::make_unique<Fsdp>(context, read); };
}

Make read_kvstore(ConfigReader& options, const StrategyRequest&, StrategySpec& spec) {
  StoreOptions store;
  using Type = StoreOptions::Type;
  std::vector<std::string> types;
  const std::vector<std::string> placements = {"balanced", "round_robin"};
  for (const Type type : {Type::device, Type::local, Type::dist_sync, Type::dist_device_sync, Type::dist_async})
    types.emplace_back(store_type_name(type));
  const std::string type =
      options.one_of("type", types, "device",
                     "where keys are summed and updated: on the devices, in host memory, or on servers over all "
                     "processes, each of which first adds up what its devices push, in host memory or on them; "
                     "dist_async updates without waiting for the other processes");
  for (const Type other : {Type::local, Type::dist_sync, Type::dist_device_sync, Type::dist_async})
    if (type == store_type_name(other)) store.type = other;
  const bool local = store.type == Type::local;
  if (store.is_dist() || options.describing())
    store.servers = static_cast<int>(options.integer(
        "servers", 0,
        {.min = 0,
         .max = kMostServers,
         .help = "of types dist_*: the last so many processes are servers alone, and one more the scheduler; 0: each "
                 "process has a server"}));
  if (store.is_asynchronous() || options.describing())
    store.max_staleness = options.optional_integer(
        "max_staleness",
        {.min = 0,
         .max = kMostSteps,
         .help = "of type dist_async: steps that a process may be ahead of the slowest one; by default "
                 "any number"});
  spec.over_processes = !local;
  spec.by_process = store.is_dist();
  if (store.is_dist()) spec.store_servers = store.servers;
  spec.max_staleness = store.max_staleness;
  spec.in_step = !store.is_asynchronous();
  // Host memory is one place: the option isn't there then.
  if (!local || options.has("placement")) {
    const std::string placement = options.one_of("placement", placements, "balanced",
                                                 "of keys over devices: by bytes, or key number modulo devices");
    if (placement == "round_robin") store.placement = Placement::round_robin;
    if (local)
      options.mistake("placement", "expected none with type: local, whose keys all lie in host memory", placement,
                      "leave it out, or write type: device");
  }
  return [store](const StrategyContext& context) { return std::make_unique<KvStore>(context, store); };
}

Make read_local_sgd(ConfigReader& options, const StrategyRequest& request, StrategySpec& spec) {
  LocalSgd::Options read;
  AveragingSteps& averaging = read.averaging;
  averaging.period = options.integer(
      "period", averaging.period,
      {.min = 1, .max = kMostSteps, .help = "steps that each device trains for by itself between two averagings"});
  averaging.warmup_steps = options.integer(
      "warmup_steps", averaging.warmup_steps,
      {.min = 0, .max = kMostSteps, .help = "of a training's first steps the weights are averaged after every one"});
  read.compress = read_compression_for(options, request);
  // An optimizer's state isn't compressed, and would be most of what is sent.
  const std::vector<std::string> states = {"averaged", "own"};
  const bool compresses = read.compress.method != CompressionOptions::Method::none;
  read.averages_state =
      options.one_of("optimizer_state", states, states[compresses ? 1 : 0],
                     "what optimizers keep: averaged with the weights, or each device's own, which is the default with "
                     "compress") == states[0];
  options.default_varies("optimizer_state");
  OuterStep& outer = read.outer;
  outer.learning_rate =
      options.number("outer_learning_rate", outer.learning_rate,
                     {.min = 0,
                      .max = kMostOuterRate,
                      .exclusive_min = true,
                      .help = "how far an averaging moves the weights from the last one towards the mean; 1: to it"});
  outer.momentum = options.number("outer_momentum", outer.momentum,
                                  {.min = 0,
                                   .max = 1,
                                   .exclusive_max = true,
                                   .help = "Nesterov's, of these moves; with 0.9 and a rate of 0.7 DiLoCo"});
  spec.averaging = averaging;
  return [read](const StrategyContext& context) { return std::make_unique<LocalSgd>(context, read); };
}

struct Row {
  const char* name;
  const char* help;
  int max_devices;
  bool over_processes;  ///< see StrategySpec; pipelines all are
  Make (*read)(ConfigReader&, const StrategyRequest&, StrategySpec&);
};

/// The table of strategies.
constexpr Row kStrategies[] = {
    {"single", "one device computes the whole batch", 1, false, read_single},
    {"data_parallel", "one process scatters the batch, gathers the outputs and updates on the first device", kMostRanks,
     false, read_data_parallel},
    {"ddp", "a rank a device; gradients are summed in buckets while backward runs", kMostRanks, true, read_ddp},
    {"fsdp", "as ddp, with weights, gradients and optimizer state dealt out over the devices", kMostRanks, true,
     read_fsdp},
    {"kvstore", "a rank a device; a store sums each parameter's gradients and updates it", kMostRanks, true,
     read_kvstore},
    {"local_sgd",
     "a rank a device, which trains on its part of the batches by itself; weights are averaged now and then",
     kMostRanks, true, read_local_sgd},
};

/// Those whose batches are cut into micro-batches of their own.
struct PipelineRow {
  const char* name;
  const char* help;
  StrategySpec (*read)(ConfigReader&, const StrategyRequest&);
};

constexpr PipelineRow kPipelines[] = {
    {"model_parallel", "the model cut into stages, one or several a device, which micro-batches go through",
     read_model_parallel},
    {"hybrid", "replicas of such a pipeline, each with its part of the batch", read_hybrid},
};

/// What `spec` is read to be, by name.
std::vector<ConfigChoice> strategy_choices(StrategySpec& spec, const StrategyRequest& request) {
  std::vector<ConfigChoice> choices;
  for (const Row& row : kStrategies)
    choices.push_back({row.name, row.help, [&](ConfigReader& options) {
                         spec.over_processes = row.over_processes;
                         spec.make = row.read(options, request, spec);
                         spec.parts = request.devices;
                       }});
  for (const PipelineRow& row : kPipelines)
    choices.push_back({row.name, row.help, [&](ConfigReader& options) {
                         spec = row.read(options, request);
                         spec.over_processes = true;
                       }});
  return choices;
}

StrategySpec read_auto(ConfigReader& options, const StrategyRequest& request) {
  StrategySpec candidate;
  options.named_list("candidates", strategy_choices(candidate, request),
                     {.definition = "candidates",
                      .required = false,
                      .help = "what is tried, each a name alone or in front of its options; by default strategies and "
                              "bucket sizes that suit the number of devices"});
  const int64_t steps = options.integer("trial_steps", kTrialSteps,
                                        {.min = 1, .max = kMostTrialSteps, .help = "timed steps of each candidate"});
  const auto make = [devices = request.devices](const StrategyContext& context) -> std::unique_ptr<Strategy> {
    if (devices == 1) return std::make_unique<Single>(context);
    return std::make_unique<Ddp>(context, Ddp::Options{});
  };
  return {.name = {}, .make = make, .trial_steps = steps};
}

/// Of several processes, strategies that don't reach from one to another.
void refuse_over_processes(ConfigReader& config, const StrategySpec& spec, const StrategyRequest& request) {
  if (request.processes < 1)
    config.mistake("strategy",
                   fmt::format("expected more than the {} processes of the servers and their scheduler",
                               spec.store_servers.value_or(0) + 1),
                   "none that trains", "start more processes, or fewer servers");
  if (request.processes < 2 || config.describing() || spec.over_processes) return;
  config.mistake("strategy", fmt::format("expected one that reaches over {} processes", request.processes), spec.name,
                 "choose ddp, fsdp, local_sgd, kvstore with another type than local, model_parallel or hybrid, or "
                 "start dptrain alone");
}

}  // namespace

StrategySpec read_strategy(ConfigReader& config, const StrategyRequest& request) {
  const int devices = request.devices;
  StrategySpec spec;
  std::vector<ConfigChoice> choices = strategy_choices(spec, request);
  choices.push_back({"auto", "the fastest of these on the devices, found by trials of a few steps",
                     [&](ConfigReader& options) { spec = read_auto(options, request); }});
  spec.name = config.named("strategy", choices, devices == 1 ? "single" : "ddp", "how the devices share a step");
  config.default_varies("strategy");
  for (const Row& row : kStrategies) {
    if (row.name != spec.name || devices <= row.max_devices) continue;
    config.mistake("strategy", fmt::format("strategy '{}' takes exactly one device", row.name),
                   fmt::format("{}", devices), "choose ddp, or list one device");
  }
  refuse_over_processes(config, spec, request);
  if (spec.name == "model_parallel" && devices < 2 && !config.describing())
    config.mistake("strategy", "strategy 'model_parallel' needs at least 2 devices", fmt::format("{}", devices),
                   "list another, or choose single");
  return spec;
}

}  // namespace dptrain::parallel
