#pragma once

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parallel/digits.h"
#include "parallel/pipeline_schedules.h"

namespace dptrain::parallel {

inline constexpr int64_t kParityMicroBatches = 4;
inline constexpr int kHybridReplicas = 2, kHybridStages = 2;

/// Another way that gives bit-identical weights.
struct Twin {
  std::string way = {};  ///< empty: none
  int devices = 0;       ///< 0: as many as the way itself has
};

/// A way to share a training step over devices: a column of the parity matrix.
struct ParityWay {
  std::string name;
  StrategyOptions options;  ///< without the options that follow from net and devices
  std::vector<int> devices = {1, 2, 3, 4};
  Twin twin = {};
  enum class Split { even, weights, measured };
  Split split = Split::even;
  int shards = 0;
  int steps_in_flight = 2;
  /// How a pipeline is cut: evenly, given as counts or as the names of each device's first stage, or by measurement.
  enum class Cut { counts, names, measured };
  Cut cut = Cut::counts;
  /// Whether batch norms see only the samples of one device, replica or shard. The reference is then one device with as
  /// many more micro-batches.
  bool own_statistics = false;
  /// The bound for compressed gradients, over all weights together; replaces the net's bound.
  double lossy = 0;
};

using ParityWays = std::vector<ParityWay>;

inline ParityWay parity_way(std::string name, const char* strategy, Twin twin = {.way = "ddp"}) {
  return {
      .name = std::move(name),
      .options = {.name = strategy, .sgd = {.momentum = 0.9, .weight_decay = 0.05}, .batch_norm = BatchNormMode::sync},
      .twin = std::move(twin)};
}

/// The options of each strategy that change no bit, and the strategies that add in the order of ddp.
inline ParityWays ways_of_a_batch() {
  ParityWays ways = {parity_way("single", "single", {}),
                     parity_way("ddp", "ddp", {}),
                     parity_way("ddp_shard_optimizer", "ddp_sharded"),
                     parity_way("fsdp", "fsdp"),
                     parity_way("fsdp_kept", "fsdp_kept"),
                     parity_way("data_parallel_gathered", "data_parallel"),
                     parity_way("data_parallel_parallel", "parallel_criterion"),
                     parity_way("kvstore_device", "kvstore"),
                     parity_way("kvstore_round_robin", "kvstore_round_robin"),
                     parity_way("kvstore_local", "kvstore_local")};
  ways[0].devices = {1};
  const auto add = [&](const char* name, const char* strategy) -> StrategyOptions& {
    return ways.emplace_back(parity_way(name, strategy)).options;
  };
  add("ddp_no_overlap", "ddp").buckets.overlap = false;
  add("ddp_small_buckets", "ddp").buckets = {.bucket_mb = 1e-3, .first_bucket_mb = 1e-4};
  add("ddp_next_forward", "ddp").buckets.defer_updates = true;
  add("ddp_next_forward_small_buckets", "ddp").buckets = {
      .bucket_mb = 1e-3, .first_bucket_mb = 1e-4, .defer_updates = true};
  add("ddp_find_unused", "ddp").find_unused = true;
  add("fsdp_by_stages", "fsdp").fsdp.unit_mb = 1e-6;
  add("fsdp_at_once", "fsdp").fsdp.unit_mb = 1024;
  add("data_parallel_last_output", "data_parallel").output_rank = -1;
  for (const char* name : {"ddp", "fsdp", "data_parallel", "kvstore", "kvstore_local"})
    ways.emplace_back(parity_way(std::string(name) + "_one_in_flight", name)).steps_in_flight = 1;
  // Measured speeds differ from run to run, and so do the parts: bits can't be compared.
  for (const char* name : {"ddp", "fsdp", "data_parallel", "kvstore"})
    ways.emplace_back(parity_way(std::string(name) + "_measured_split", name, {})).split = ParityWay::Split::measured;
  return ways;
}

/// Each strategy with one change, which `change` makes. All match `twin`, which is one of them, bit for bit.
template <class Change>
ParityWays strategies_with(const std::string& what, const Twin& twin, const Change& change) {
  ParityWays ways;
  for (const char* name :
       {"single", "ddp", "ddp_sharded", "fsdp", "data_parallel", "parallel_criterion", "kvstore", "kvstore_local"}) {
    ParityWay way = parity_way(std::string(name) + "_" + what, name, twin);
    if (way.name == twin.way) way.twin = {};
    change(way);
    if (name == std::string("single")) way.devices = {1};
    ways.push_back(std::move(way));
  }
  return ways;
}

inline ParityWays ways_in_micro_batches() {
  return strategies_with("micro_batches", {.way = "ddp_micro_batches"},
                         [](ParityWay& way) { way.options.micro_batches = kParityMicroBatches; });
}

inline ParityWays ways_with_weights() {
  ParityWays ways = strategies_with("weighted", {.way = "ddp_weighted"},
                                    [](ParityWay& way) { way.split = ParityWay::Split::weights; });
  ParityWay& last = ways.emplace_back(*std::ranges::find(ways, "data_parallel_weighted", &ParityWay::name));
  last.name = "data_parallel_last_output_weighted";
  last.options.output_rank = -1;
  return ways;
}

/// ddp whose updates are made during the next step, combined with other options.
inline ParityWays ways_with_deferred_updates() {
  ParityWays ways;
  const auto add = [&](const std::string& what, const char* strategy, const std::string& twin) -> ParityWay& {
    ParityWay& way = ways.emplace_back(parity_way("ddp_next_forward_" + what, strategy, {.way = twin}));
    way.options.buckets.defer_updates = true;
    return way;
  };
  add("micro_batches", "ddp", "ddp_micro_batches").options.micro_batches = kParityMicroBatches;
  add("weighted", "ddp", "ddp_weighted").split = ParityWay::Split::weights;
  add("one_in_flight", "ddp", "ddp").steps_in_flight = 1;
  ParityWay& local = add("local_statistics", "ddp", "ddp_local_statistics");
  local.own_statistics = true;
  local.options.batch_norm = BatchNormMode::local;
  // These match because compression works tensor by tensor, whatever the buckets.
  add("bf16", "ddp_bf16", "ddp_bf16").lossy = 0.02;
  add("powersgd", "ddp_powersgd", "ddp_powersgd").lossy = 0.5;
  add("two_bit", "ddp_two_bit", "ddp_two_bit").lossy = 0.8;
  return ways;
}

/// Four, six and eight shards. The summation tree of six isn't complete.
inline ParityWays ways_in_shards() {
  ParityWays all;
  for (const auto& [shards, devices] : {std::pair{4, std::vector{1, 2, 4}}, {6, {1, 2, 3}}, {8, {1, 2, 4}}}) {
    const std::string what = std::to_string(shards) + "_shards";
    for (ParityWay& way : strategies_with(what, {.way = "single_" + what, .devices = 1}, [&](ParityWay& one) {
           one.shards = shards;
           one.own_statistics = true;
           one.options.batch_norm = BatchNormMode::local;
           one.devices = devices;
         }))
      // fsdp is left out: shards compute with whole weights.
      if (way.options.name != "fsdp") all.push_back(std::move(way));
  }
  return all;
}

/// Every strategy with each mode of batch norm that isn't the default of the other ways. Under `local` and `first` the
/// saved state is the same, since the first device's running statistics are saved.
inline ParityWays ways_of_batch_norms() {
  constexpr std::pair<BatchNormMode, const char*> kModes[] = {
      {BatchNormMode::local, "local"}, {BatchNormMode::average, "average"}, {BatchNormMode::first, "first"}};
  ParityWays ways;
  for (const auto& [mode, mode_name] : kModes)
    for (const char* name :
         {"ddp", "ddp_sharded", "fsdp", "data_parallel", "parallel_criterion", "kvstore", "kvstore_local"}) {
      const std::string twin = mode == BatchNormMode::average ? "ddp_average_statistics" : "ddp_local_statistics";
      ParityWay way = parity_way(std::string(name) + "_" + mode_name + "_statistics", name, {.way = twin});
      if (way.name == twin) way.twin = {};
      way.own_statistics = true;
      way.options.batch_norm = mode;
      ways.push_back(std::move(way));
    }
  return ways;
}

inline ParityWays ways_of_pipelines() {
  const auto way_of = [](const std::string& name, PipelineSchedule schedule, int replicas) {
    ParityWay way = parity_way(name, replicas > 1 ? "hybrid" : "model_parallel");
    way.options.micro_batches = kParityMicroBatches;
    way.options.pipeline = {.schedule = schedule, .micro_batches = kParityMicroBatches, .replicas = replicas};
    way.devices = replicas > 1 ? std::vector<int>{kHybridStages * replicas} : std::vector<int>{2, 3, 4};
    way.twin = replicas > 1 ? Twin{.way = "ddp_micro_batches", .devices = replicas}
                            : Twin{.way = "single_micro_batches", .devices = 1};
    return way;
  };
  ParityWays ways = {way_of("model_parallel_gpipe", kGpipe, 1),
                     way_of("model_parallel_1f1b", k1f1b, 1),
                     way_of("model_parallel_zero_bubble", kZeroBubble, 1),
                     way_of("hybrid_zero_bubble", kZeroBubble, kHybridReplicas),
                     way_of("model_parallel_interleaved", kInterleaved, 1),
                     way_of("model_parallel_interleaved_measured_cut", kInterleaved, 1),
                     way_of("hybrid_interleaved", kInterleaved, kHybridReplicas),
                     way_of("hybrid_interleaved_one_in_flight", kInterleaved, kHybridReplicas),
                     way_of("model_parallel_one_in_flight", k1f1b, 1),
                     way_of("model_parallel_by_names", k1f1b, 1),
                     way_of("model_parallel_measured_cut", k1f1b, 1),
                     way_of("hybrid_gpipe", kGpipe, kHybridReplicas),
                     way_of("hybrid_1f1b", k1f1b, kHybridReplicas),
                     way_of("hybrid_one_in_flight", k1f1b, kHybridReplicas),
                     way_of("hybrid_by_names", k1f1b, kHybridReplicas),
                     way_of("hybrid_measured_cut", k1f1b, kHybridReplicas)};
  for (ParityWay& way : ways) {
    if (way.options.pipeline.schedule == kInterleaved) way.options.pipeline.stages_per_device = 2;
    if (way.name.ends_with("_one_in_flight")) way.steps_in_flight = 1;
    if (way.name.ends_with("_by_names")) way.cut = ParityWay::Cut::names;
    if (way.name.ends_with("_measured_cut")) way.cut = ParityWay::Cut::measured;
  }
  // The replicas of a stage share statistics as those of ddp do.
  constexpr std::pair<BatchNormMode, const char*> kModes[] = {
      {BatchNormMode::local, "local"}, {BatchNormMode::average, "average"}, {BatchNormMode::first, "first"}};
  for (const auto& [mode, mode_name] : kModes) {
    ParityWay twin = parity_way(std::string("ddp_micro_batches_") + mode_name, "ddp", {});
    twin.options.micro_batches = kParityMicroBatches;
    twin.devices = {kHybridReplicas};
    ParityWay way = way_of(std::string("hybrid_") + mode_name, k1f1b, kHybridReplicas);
    for (ParityWay* one : {&twin, &way}) {
      one->own_statistics = true;
      one->options.batch_norm = mode;
      one->name += "_statistics";
    }
    way.twin.way = twin.name;
    ways.push_back(std::move(twin));
    ways.push_back(std::move(way));
  }
  return ways;
}

inline ParityWays ways_of_compression() {
  // bf16 and fp16 round gradients on each rank and once more as a sum, to 2^-9 and 2^-12 of a value. The weights are
  // off by a few such roundings, and in bf16 these flip a ReLU. powersgd and two_bit send later what they leave out:
  // after three steps at least half of the movement has arrived with powersgd, a fifth with two_bit.
  constexpr std::pair<const char*, double> kMethods[] = {
      {"ddp_bf16", 0.02}, {"ddp_fp16", 0.002}, {"ddp_powersgd", 0.5}, {"ddp_two_bit", 0.8}};
  ParityWays ways;
  for (const auto& [name, bound] : kMethods) {
    ways.emplace_back(parity_way(name, name, {})).lossy = bound;
    // Micro-batches are added up on each rank, and their sum is compressed once.
    ParityWay& way = ways.emplace_back(parity_way(std::string(name) + "_micro_batches", name, {}));
    way.lossy = bound;
    way.options.micro_batches = kParityMicroBatches;
    ParityWay& weighted = ways.emplace_back(parity_way(std::string(name) + "_weighted", name, {}));
    weighted.lossy = bound;
    weighted.split = ParityWay::Split::weights;
  }
  const auto add = [&](const char* name, const char* strategy, double bound, const CompressionOptions& compress) {
    ParityWay& way = ways.emplace_back(parity_way(name, strategy, {}));
    way.lossy = bound;
    way.options.compress = compress;
  };
  add("ddp_powersgd_rank_1", "ddp_powersgd", 0.8, {.rank = 1});  // at least a fifth of the movement has arrived
  add("ddp_two_bit_half_threshold", "ddp_two_bit", 0.8, {.threshold = 0.5});
  // No weight is large enough for factors of this rank: all are sent whole.
  add("ddp_powersgd_whole", "ddp_powersgd", 0, {.rank = 1000});
  ways.back().twin = {.way = "ddp"};
  return ways;
}

/// Optimizers that use norms of whole layers, which strategies hold in parts. Their trust ratios, and LAMB's epsilon,
/// are so large that rounding errors stay small beside the movement.
inline ParityWays ways_by_layers() {
  ParityWays all;
  const auto add = [&](const std::string& what, const auto& change) {
    const auto with = [&](ParityWay& way) {
      way.devices = {2, 3};
      change(way.options);
    };
    for (ParityWay& way : strategies_with(what, {.way = "ddp_" + what}, with)) all.push_back(std::move(way));
    ParityWay& single = all.emplace_back(parity_way("single_" + what + "_micro_batches", "single", {}));
    single.devices = {1};
    single.options.micro_batches = kParityMicroBatches;
    change(single.options);
    ParityWay& pipeline =
        all.emplace_back(parity_way("model_parallel_" + what, "model_parallel", {.way = single.name, .devices = 1}));
    pipeline.devices = {3};
    pipeline.options.micro_batches = pipeline.options.pipeline.micro_batches = kParityMicroBatches;
    change(pipeline.options);
  };
  add("lars", [](StrategyOptions& options) {
    options.lars = {.weight_decay = 0.05, .nesterov = true, .trust_coefficient = 0.5};
    options.clip_norm = 0.5;
  });
  add("lamb", [](StrategyOptions& options) { options.lamb = {.epsilon = 0.1, .weight_decay = 0.05}; });
  return all;
}

/// Replicas that train independently and are averaged after every step: the mean of SGD's steps is ddp's step.
inline ParityWays ways_with_a_mean_of_replicas() {
  ParityWays ways;
  const auto add = [&](const std::string& name) -> ParityWay& {
    ParityWay& way = ways.emplace_back(parity_way(name, "local_sgd", {}));
    way.own_statistics = true;
    way.options.batch_norm = BatchNormMode::local;
    way.options.local_sgd.averaging = {.period = 1};
    // Each replica rounds its weights, and the mean is rounded again: the rounding error is that of one update for each
    // replica. That is small beside the movement of all weights, but not beside the movement of a layer norm's weights
    // alone, which are near 1.
    way.lossy = 1e-4;
    return way;
  };
  add("local_sgd");
  // The ranks send how far the weights have moved since the last mean, where ddp sends gradients. The optimizers never
  // see the part that isn't sent, so with momentum less of the movement has arrived after three steps.
  using Method = CompressionOptions::Method;
  for (const auto& [name, compress, bound] :
       {std::tuple("local_sgd_bf16", CompressionOptions{.method = Method::bf16}, 0.02),
        {"local_sgd_fp16", {.method = Method::fp16}, 0.002},
        {"local_sgd_powersgd", {.method = Method::powersgd}, 0.8},
        {"local_sgd_two_bit", {.method = Method::two_bit}, 0.8},
        {"local_sgd_powersgd_whole", {.method = Method::powersgd, .rank = 1000}, 1e-4}}) {
    ParityWay& way = add(name);
    way.options.local_sgd.compress = compress;
    way.lossy = bound;
  }
  add("local_sgd_warming_up").options.local_sgd.averaging = {.period = 100, .warmup_steps = 100};
  ParityWay& micro_batches = add("local_sgd_micro_batches");
  micro_batches.options.micro_batches = kParityMicroBatches;
  micro_batches.devices = {1, 2, 4};  // their statistics are of the samples of smaller micro-batches
  add("local_sgd_one_in_flight").steps_in_flight = 1;
  return ways;
}

inline ParityWays parity_ways() {
  ParityWays all;
  for (ParityWays& ways : std::vector{ways_of_a_batch(), ways_in_micro_batches(), ways_with_weights(), ways_in_shards(),
                                      ways_of_batch_norms(), ways_of_pipelines(), ways_of_compression(),
                                      ways_with_deferred_updates(), ways_by_layers(), ways_with_a_mean_of_replicas()})
    std::ranges::move(ways, std::back_inserter(all));
  return all;
}

inline ParityWay parity_way_named(const std::string& name) {
  for (ParityWay& way : parity_ways())
    if (way.name == name) return std::move(way);
  throw std::logic_error("no way " + name);
}

}  // namespace dptrain::parallel
