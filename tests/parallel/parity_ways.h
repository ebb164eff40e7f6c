#pragma once

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "parallel/digits.h"

namespace dptrain::parallel {

inline constexpr int64_t kParityMicroBatches = 4;
inline constexpr int kParityShards = 4, kHybridReplicas = 2, kHybridStages = 2;

/// Another way, whose bits a way has.
struct Twin {
  std::string way = {};  ///< empty: none
  int devices = 0;       ///< 0: as many
};

/// A way to share a training step over devices: a column of the parity matrix.
struct ParityWay {
  std::string name;
  StrategyOptions options;  ///< without what follows from net and devices
  std::vector<int> devices = {1, 2, 3, 4};
  Twin twin = {};
  bool weighted = false;  ///< the batch is shared out unevenly
  bool shards = false;
  bool measured_cut = false;  ///< of a pipeline; otherwise it is even by number of stages
  /// Batch norms see the samples of one device, or shard, alone: as those of one device with so many more
  /// micro-batches.
  bool own_statistics = false;
  /// Where gradients are compressed, in place of the net's bound: of all weights together.
  double lossy = 0;
};

using ParityWays = std::vector<ParityWay>;

inline ParityWay parity_way(std::string name, const char* strategy, Twin twin = {.way = "ddp"}) {
  return {.name = std::move(name),
          .options = {.name = strategy, .sgd = {.momentum = 0.9}, .batch_norm = BatchNormMode::sync},
          .twin = std::move(twin)};
}

/// The options of one strategy that change no bit, and the strategies that add in the order of ddp.
inline ParityWays ways_of_a_batch() {
  ParityWays ways = {parity_way("single", "single", {}),
                     parity_way("ddp", "ddp", {}),
                     parity_way("ddp_shard_optimizer", "ddp_sharded"),
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
  add("ddp_find_unused", "ddp").find_unused = true;
  add("data_parallel_last_output", "data_parallel").output_rank = -1;
  return ways;
}

/// The strategies under one change, which `change` makes; all have the bits of `twin`, one of them.
template <class Change>
ParityWays strategies_with(const std::string& what, const Twin& twin, const Change& change) {
  ParityWays ways;
  for (const char* name :
       {"single", "ddp", "ddp_sharded", "data_parallel", "parallel_criterion", "kvstore", "kvstore_local"}) {
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
  return strategies_with("weighted", {.way = "ddp_weighted"}, [](ParityWay& way) { way.weighted = true; });
}

inline ParityWays ways_in_shards() {
  return strategies_with("shards", {.way = "single_shards", .devices = 1}, [](ParityWay& way) {
    way.shards = way.own_statistics = true;
    way.options.batch_norm = BatchNormMode::local;
    way.devices = {1, 2, 4};
  });
}

/// Without the mode that all others have.
inline ParityWays ways_of_batch_norms() {
  ParityWays ways = {parity_way("ddp_local_statistics", "ddp", {}), parity_way("ddp_average_statistics", "ddp", {}),
                     parity_way("ddp_first_statistics", "ddp", {.way = "ddp_local_statistics"})};
  const BatchNormMode modes[] = {BatchNormMode::local, BatchNormMode::average, BatchNormMode::first};
  for (size_t i = 0; i < ways.size(); ++i) {
    ways[i].own_statistics = true;
    ways[i].options.batch_norm = modes[i];
  }
  return ways;
}

inline ParityWays ways_of_pipelines() {
  const auto way_of = [](const char* name, PipelineSchedule schedule, int replicas) {
    ParityWay way = parity_way(name, replicas > 1 ? "hybrid" : "model_parallel");
    way.options.micro_batches = kParityMicroBatches;
    way.options.pipeline = {.schedule = schedule, .micro_batches = kParityMicroBatches, .replicas = replicas};
    way.devices = replicas > 1 ? std::vector<int>{kHybridStages * replicas} : std::vector<int>{2, 3, 4};
    way.twin = replicas > 1 ? Twin{.way = "ddp_micro_batches", .devices = replicas}
                            : Twin{.way = "single_micro_batches", .devices = 1};
    return way;
  };
  constexpr auto k1f1b = PipelineSchedule::one_forward_one_back;
  ParityWays ways = {way_of("model_parallel_gpipe", PipelineSchedule::gpipe, 1),
                     way_of("model_parallel_1f1b", k1f1b, 1), way_of("model_parallel_measured_cut", k1f1b, 1),
                     way_of("hybrid_gpipe", PipelineSchedule::gpipe, kHybridReplicas),
                     way_of("hybrid_1f1b", k1f1b, kHybridReplicas)};
  ways[2].measured_cut = true;
  return ways;
}

inline ParityWays ways_of_compression() {
  // Gradients are rounded by each rank and once more as a sum, to 2^-9 and 2^-12 of a value: what reaches the weights
  // is off by some of these, and in bf16 decides a ReLU otherwise. powersgd and two_bit send later what they leave out:
  // after three steps at least half of the movement is there, or a fifth.
  constexpr std::pair<const char*, double> kMethods[] = {
      {"ddp_bf16", 0.02}, {"ddp_fp16", 0.002}, {"ddp_powersgd", 0.5}, {"ddp_two_bit", 0.8}};
  ParityWays ways;
  for (const auto& [name, bound] : kMethods) ways.emplace_back(parity_way(name, name, {})).lossy = bound;
  return ways;
}

inline ParityWays parity_ways() {
  ParityWays all;
  for (ParityWays& ways : std::vector{ways_of_a_batch(), ways_in_micro_batches(), ways_with_weights(), ways_in_shards(),
                                      ways_of_batch_norms(), ways_of_pipelines(), ways_of_compression()})
    std::ranges::move(ways, std::back_inserter(all));
  return all;
}

inline ParityWay parity_way_named(const std::string& name) {
  for (ParityWay& way : parity_ways())
    if (way.name == name) return std::move(way);
  throw std::logic_error("no way " + name);
}

}  // namespace dptrain::parallel
