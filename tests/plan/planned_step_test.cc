// A plan equals what training then measures: the same bytes of memory by purpose, the same messages.
#include "plan/planned_step.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>

#include "plan/planned_of.h"

namespace dptrain {
namespace {

using testing::experiment_of_lines;
using testing::planned_of;

constexpr int64_t kSteps = 8;

/// The costs of each rank in a run of some steps.
std::vector<parallel::RankCosts> measured(const train::Experiment& experiment, const Datasets& data) {
  const auto strategy = experiment.strategy.make(train::strategy_context(experiment, *data.train));
  BatchLoader loader(data.train, train::loader_options(experiment, *strategy));
  std::vector<parallel::RankCosts> costs(static_cast<size_t>(strategy->ranks()));
  loader.start_epoch(1);
  for (int rank = 0; rank < strategy->ranks(); ++rank) strategy->take_costs(rank);
  // The run computes longer than it loads: as many steps as allowed are submitted, and the loader is as far ahead as it
  // may be.
  std::deque<std::shared_ptr<const Batch>> given;
  for (int64_t step = 1; step <= kSteps; ++step) {
    while (static_cast<int>(given.size()) < experiment.steps_in_flight) given.push_back(loader.next());
    loader.wait_until_full();
    strategy->train_step(given.front(), {.step = step, .epoch = 1, .learning_rate = 0.01});
    if (strategy->defers_updates())
      strategy->wait_for_steps();
    else
      strategy->take_scores(true);
    given.pop_front();
  }
  strategy->take_scores(true);
  for (int rank = 0; rank < strategy->ranks(); ++rank) costs[static_cast<size_t>(rank)] += strategy->take_costs(rank);
  return costs;
}

const std::string kLeNet =
    "model: lenet\ndataset: {name: synthetic, shape: [1, 28, 28], samples: 320}\nbatch_size: 32\n";
const std::string kResNet =
    "model: resnet18\ndataset: {name: synthetic, shape: [1, 16, 16], samples: 36}\nbatch_size: 4\n";
const std::string kPyramidNet =
    "model: {name: pyramidnet, alpha: 12, depth: 3, blocks: 1}\n"
    "dataset: {name: synthetic, shape: [3, 32, 32], samples: 80}\nbatch_size: 8\n";
const std::string kBert =
    "model: {name: bert, vocab: 60, hidden: 32, layers: 2, heads: 2, seq: 24}\n"
    "dataset: {name: synthetic, samples: 80}\nbatch_size: 8\noptimizer: adamw\n";

struct Row {
  std::string name;
  std::string model;
  std::string rest;
  std::string precision = "precision: fp32\n";
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class PlannedStepTest : public ::testing::TestWithParam<Row> {};

TEST_P(PlannedStepTest, HoldsAndSendsWhatTrainingDoes) {
  const train::Experiment experiment = experiment_of_lines(
      GetParam().model + "threads: 1\nlearning_rate: 0.01\nepochs: 1\n" + GetParam().precision + GetParam().rest);
  const Datasets data = experiment.dataset.open();
  const plan::PlannedStep plan = planned_of(experiment, data);
  const std::vector<parallel::RankCosts> costs = measured(experiment, data);
  ASSERT_EQ(plan.ranks.size(), costs.size());
  EXPECT_EQ(plan.batch_samples, experiment.batch_size);
  for (size_t r = 0; r < costs.size(); ++r) {
    SCOPED_TRACE(fmt::format("rank {}", r));
    EXPECT_EQ(kSteps * plan.ranks[r].sent.bytes, costs[r].communication.bytes);
    EXPECT_EQ(kSteps * plan.ranks[r].sent.collectives, costs[r].communication.collectives);
    EXPECT_EQ(kSteps * plan.ranks[r].samples, costs[r].samples);
    EXPECT_EQ(plan.ranks[r].peak_bytes, costs[r].peak_bytes);
    for (const MemoryPurpose purpose : kMemoryPurposes)
      EXPECT_EQ(plan.ranks[r].memory_at_peak[purpose], costs[r].memory_at_peak[purpose])
          << memory_purpose_name(purpose);
  }
}

std::string on(int devices, const std::string& strategy) {
  return fmt::format("devices: cpu:0-{}\nstrategy: {}\n", devices - 1, strategy);
}

INSTANTIATE_TEST_SUITE_P(
    All, PlannedStepTest,
    ::testing::Values(
        Row{"lenet_single", kLeNet, "devices: cpu:0\n"}, Row{"resnet_single", kResNet, "devices: cpu:0\n"},
        Row{"pyramidnet_single", kPyramidNet, "devices: cpu:0\n"}, Row{"bert_single", kBert, "devices: cpu:0\n"},
        Row{"lenet_ddp", kLeNet, on(2, "ddp")}, Row{"resnet_ddp", kResNet, on(2, "ddp")},
        Row{"pyramidnet_ddp", kPyramidNet, on(3, "ddp")}, Row{"bert_ddp", kBert, on(2, "ddp")},
        Row{"resnet_no_overlap", kResNet, on(2, "{name: ddp, overlap: false, bucket_mb: 5}")},
        Row{"lenet_next_forward", kLeNet, on(2, "{name: ddp, overlap: next_forward}")},
        Row{"resnet_next_forward", kResNet, on(2, "{name: ddp, overlap: next_forward, bucket_mb: 1}")},
        Row{"lenet_sharded_optimizer", kLeNet + "clip_norm: 1.0\n", on(3, "{name: ddp, shard_optimizer: true}")},
        Row{"lenet_fsdp", kLeNet + "optimizer: adam\n", on(3, "fsdp")},
        Row{"resnet_fsdp", kResNet, on(2, "{name: fsdp, unit_mb: 0.1}")},
        Row{"resnet_fsdp_bf16", kResNet + "clip_norm: 1.0\n", on(3, "{name: fsdp, unit_mb: 0.1}"), "precision: bf16\n"},
        Row{"bert_fsdp", kBert + "accumulate: 2\n", on(2, "{name: fsdp, reshard_after_forward: false}")},
        Row{"resnet_fsdp_replicas", kResNet + "clip_norm: 1.0\n", on(4, "{name: fsdp, unit_mb: 0.1, replicas: 2}")},
        Row{"lenet_lars_of_shards", kLeNet + "optimizer: lars\n", on(3, "{name: ddp, shard_optimizer: true}")},
        Row{"lenet_lamb_kvstore", kLeNet + "optimizer: lamb\n", on(2, "kvstore")},
        Row{"lenet_lamb_dist_sync", kLeNet + "optimizer: lamb\n", on(2, "{name: kvstore, type: dist_sync}")},
        Row{"lenet_bf16_compressed", kLeNet, on(2, "{name: ddp, compress: bf16}")},
        Row{"lenet_power_sgd", kLeNet, on(2, "{name: ddp, compress: {name: powersgd, rank: 2}}")},
        Row{"lenet_two_bit", kLeNet, on(2, "{name: ddp, compress: two_bit}")},
        Row{"resnet_sync_statistics", kResNet, on(2, "ddp") + "batch_norm: sync\n"},
        Row{"lenet_data_parallel", kLeNet, on(2, "data_parallel")},
        Row{"bert_data_parallel", kBert, on(2, "{name: data_parallel, output_device: 1}")},
        Row{"bert_parallel_criterion", kBert, on(4, "{name: data_parallel, criterion: parallel}")},
        Row{"resnet_data_parallel", kResNet, on(3, "{name: data_parallel, criterion: parallel}")},
        Row{"lenet_kvstore", kLeNet, on(2, "kvstore")}, Row{"bert_kvstore", kBert, on(3, "kvstore")},
        Row{"lenet_kvstore_local", kLeNet, on(2, "{name: kvstore, type: local}")},
        Row{"lenet_local_sgd", kLeNet + "optimizer: adam\n", on(3, "{name: local_sgd, period: 1}")},
        Row{"lenet_local_sgd_adasum", kLeNet, on(3, "{name: local_sgd, period: 1, combine: adasum}")},
        Row{"resnet_local_sgd", kResNet, on(2, "{name: local_sgd, period: 1}")},
        Row{"lenet_local_sgd_powersgd", kLeNet, on(3, "{name: local_sgd, period: 1, compress: powersgd}")},
        Row{"resnet_local_sgd_bf16", kResNet, on(2, "{name: local_sgd, period: 1, compress: bf16}")},
        Row{"lenet_uneven", kLeNet, on(2, "ddp") + "split: [0.7, 0.3]\naccumulate: 2\n"},
        Row{"resnet_frozen", kResNet + "freeze: [conv1, bn1, layer1, layer3]\n", on(2, "ddp")},
        Row{"bert_frozen", kBert + "freeze: [bert]\n", on(3, "{name: model_parallel, stages: [1, 1, 1]}")},
        Row{"lenet_ema", kLeNet + "ema: 0.9\n", on(2, "ddp")},
        Row{"resnet_steps_in_flight_1", kResNet + "steps_in_flight: 1\n", on(2, "ddp")},
        Row{"lenet_model_parallel", kLeNet, on(2, "{name: model_parallel, stages: [conv1, conv2], micro_batches: 4}")},
        Row{"resnet_gpipe", kResNet,
            on(3, "{name: model_parallel, stages: [3, 2, 5], micro_batches: 4, schedule: gpipe}")},
        Row{"resnet_zero_bubble", kResNet,
            on(3, "{name: model_parallel, stages: [3, 2, 5], micro_batches: 4, schedule: zero_bubble}")},
        Row{"resnet_interleaved", kResNet,
            on(2, "{name: model_parallel, stages: [3, 2, 2, 3], micro_batches: 4, schedule: interleaved}")},
        Row{"resnet_interleaved_hybrid", kResNet + "clip_norm: 1.0\n",
            on(4, "{name: hybrid, stages: [3, 2, 2, 3], micro_batches: 2, schedule: interleaved}")},
        Row{"bert_zero_bubble", kBert,
            on(2, "{name: model_parallel, stages: [1, 2], micro_batches: 4, schedule: zero_bubble}")},
        Row{"bert_model_parallel", kBert + "clip_norm: 1.0\n",
            on(2, "{name: model_parallel, stages: [1, 2], micro_batches: 4}") + "accumulate: 2\n"},
        Row{"lenet_hybrid", kLeNet + "ema: 0.9\n", on(4, "{name: hybrid, stages: [conv1, conv2], micro_batches: 2}")},
        Row{"resnet_hybrid_sync_statistics", kResNet,
            on(4, "{name: hybrid, stages: [3, 7], micro_batches: 2}") + "batch_norm: sync\n"},
        Row{"lenet_kvstore_dist_sync", kLeNet, on(2, "{name: kvstore, type: dist_sync}")},
        Row{"bert_kvstore_dist_device_sync", kBert, on(3, "{name: kvstore, type: dist_device_sync}")},
        Row{"lenet_shards", kLeNet, on(2, "ddp") + "shards: 8\n"},
        Row{"lenet_shards_of_six", kLeNet, on(2, "kvstore") + "shards: 6\n"},
        Row{"resnet_shards", kResNet, on(2, "data_parallel") + "shards: 4\n"}),
    [](const auto& row) { return row.param.name; });

TEST(PlannedStep, CountsProductsOfAllThreePasses) {
  // A linear layer of 784 to 10 over 32 rows has a forward product and the weights' gradient; the pixels need no
  // gradient.
  const train::Experiment experiment = experiment_of_lines(
      "model: {layers: [flatten, linear: classes]}\n"
      "dataset: {name: synthetic, shape: [1, 28, 28], samples: 320}\n"
      "batch_size: 32\nlearning_rate: 0.1\nepochs: 1\ndevices: cpu:0\n");
  const plan::PlannedStep plan = planned_of(experiment, experiment.dataset.open());
  EXPECT_EQ(plan.ranks[0].flops(), 2 * 2.0 * 32 * 784 * 10);
}

TEST(PlannedStep, TellsOfAStepWithAnAveragingAndOfOneWithout) {
  const auto planned = [](const std::string& strategy) {
    const train::Experiment experiment = experiment_of_lines(
        kResNet + "threads: 1\nlearning_rate: 0.01\nepochs: 1\noptimizer: {name: sgd, momentum: 0.9}\n" +
        on(2, strategy));
    return planned_of(experiment, experiment.dataset.open());
  };
  const auto names = [](const plan::PlannedRank& rank) {
    std::multiset<std::string> all;
    for (const OperatorCost& cost : rank.operators) all.insert(cost.name);
    return all;
  };
  const plan::PlannedStep step = planned("{name: local_sgd, period: 5, warmup_steps: 3}");
  const plan::PlannedStep always = planned("{name: local_sgd, period: 1}");
  ASSERT_EQ(step.between.size(), 2u);
  EXPECT_TRUE(always.between.empty());
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_TRUE(step.between[r].calls.empty());
    EXPECT_EQ(step.between[r].sent.bytes, 0);
    EXPECT_EQ(step.ranks[r].sent.bytes, always.ranks[r].sent.bytes);
    EXPECT_EQ(step.ranks[r].calls.size(), always.ranks[r].calls.size());
    EXPECT_EQ(names(step.ranks[r]), names(always.ranks[r]));
    // Weights, momentum and running statistics are averaged separately.
    const std::multiset<std::string> with = names(step.ranks[r]), without = names(step.between[r]);
    EXPECT_EQ(with.count("approach"), 3 + without.count("approach"));
    EXPECT_EQ(with.count("conv2d"), without.count("conv2d"));
    EXPECT_GT(with.size(), without.size());
  }
}

/// Of LeNet's three units the first is gathered again. Exchanges overlap with operators, at first with those that fetch
/// images; only the first unit's gradients come last.
TEST(PlannedStep, OfShardedWeightsExchangesBesideWhatIsComputed) {
  const train::Experiment experiment = experiment_of_lines(kLeNet + "threads: 1\nlearning_rate: 0.01\nepochs: 1\n" +
                                                           on(2, "{name: fsdp, unit_mb: 0.001}"));
  const plan::PlannedStep step = planned_of(experiment, experiment.dataset.open());
  for (const plan::PlannedRank& rank : step.ranks) {
    std::map<CommKind, std::vector<bool>> hidden;
    for (const LoggedCall& call : rank.calls) hidden[call.call.kind].push_back(call.awaited_after > call.started_after);
    EXPECT_EQ(hidden[CommKind::all_gather], (std::vector{true, true, true, true}));
    EXPECT_EQ(hidden[CommKind::reduce_scatter], (std::vector{true, true, false}));
  }
}

TEST(PlannedStep, OfManyReplicasMakesWholePipelines) {
  const train::Experiment experiment =
      experiment_of_lines(kLeNet + "threads: 1\nlearning_rate: 0.01\nepochs: 1\n" +
                          on(4, "{name: hybrid, stages: [conv1, conv2], micro_batches: 2}"));
  const Datasets data = experiment.dataset.open();
  const plan::PlannedStep of_two = planned_of(experiment, data);
  ASSERT_TRUE(of_two.pipeline.has_value());
  EXPECT_EQ(of_two.pipeline->micro_batches, 2);
  EXPECT_EQ(of_two.pipeline->stages.size(), 2u);
  EXPECT_EQ(of_two.pipeline->stages[0], std::vector<std::string>{"conv1"});
  // The messages within each replica, and the sums over the same stages of all replicas.
  for (const plan::PlannedRank& rank : of_two.ranks) {
    const auto count = [&](CommKind kind) {
      return std::ranges::count_if(rank.calls, [kind](const LoggedCall& call) { return call.call.kind == kind; });
    };
    EXPECT_EQ(count(CommKind::send), 2);
    EXPECT_EQ(count(CommKind::receive), 2);
    EXPECT_EQ(count(CommKind::all_reduce), 1);
  }
}

TEST(PlannedStep, OfManyProcessesTheFirstReplicaStandsForAll) {
  constexpr int kProcesses = 8, kStages = 2;
  const train::Experiment experiment = experiment_of_lines(
      kLeNet + "threads: 1\nlearning_rate: 0.01\nepochs: 1\n" +
          on(kStages, "{name: hybrid, model_parallel: 2, stages: [conv1, conv2], micro_batches: 2}"),
      {.processes = kProcesses,
       .exchange_devices = [](const std::vector<DeviceId>& own) { return std::vector(kProcesses, own); }});
  const plan::PlannedStep plan = planned_of(experiment, experiment.dataset.open(), kProcesses);
  EXPECT_EQ(plan.world_size, kProcesses * kStages);
  ASSERT_EQ(plan.ranks.size(), 2u);
  for (size_t stage = 0; stage < plan.ranks.size(); ++stage) {
    const plan::PlannedRank& rank = plan.ranks[stage];
    SCOPED_TRACE(stage);
    EXPECT_EQ(rank.samples, stage + 1 == plan.ranks.size() ? 32 / kProcesses : 0) << "the last stage has the losses";
    std::vector<const LoggedCall*> sums;
    for (const LoggedCall& call : rank.calls)
      if (call.call.kind == CommKind::all_reduce) sums.push_back(&call);
    ASSERT_EQ(sums.size(), 1u);
    // The ranks of the same stage of each replica, wherever they are.
    std::vector<int> same_stage;
    for (int replica = 0; replica < kProcesses; ++replica)
      same_stage.push_back(replica * kStages + static_cast<int>(stage));
    EXPECT_EQ(sums[0]->ranks, kProcesses);
    ASSERT_NE(sums[0]->members, nullptr);
    EXPECT_EQ(*sums[0]->members, same_stage);
  }
}

TEST(PlannedStep, CutsAPipelineByWhatOperatorsTake) {
  // The second-to-last layer takes ten times as long as all before it together, and the last one nearly as long.
  const train::Experiment experiment = experiment_of_lines(
      "model: {layers: [flatten, linear: 16, linear: 16, linear: 16, linear: 1024, linear: classes]}\n"
      "dataset: {name: synthetic, shape: [1, 8, 8], samples: 320}\n"
      "batch_size: 32\nthreads: 1\nlearning_rate: 0.1\nepochs: 1\n" +
      on(2, "{name: model_parallel, micro_batches: 4}"));
  const auto last_stage_by = [&](const std::function<double(const OperatorCost&)>& operator_s) {
    const auto pipeline = planned_of(experiment, experiment.dataset.open(), 1, operator_s).pipeline;
    return pipeline ? pipeline->stages.back().size() : 0;
  };
  EXPECT_EQ(last_stage_by([](const OperatorCost& cost) { return cost.flops; }), 1u);
  EXPECT_GE(last_stage_by([](const OperatorCost&) { return 1; }), 2u) << "all as fast as each other";
}

TEST(PlannedStep, OfAStoreOverProcessesPushesAndPullsEveryKey) {
  constexpr int kProcesses = 3;
  const train::Experiment experiment =
      experiment_of_lines(kLeNet + "threads: 1\nlearning_rate: 0.01\nepochs: 1\nclip_norm: 1\n" +
                          on(2, "{name: kvstore, type: dist_sync, servers: 2}"));
  const plan::PlannedStep plan = planned_of(experiment, experiment.dataset.open(), kProcesses);
  ASSERT_EQ(plan.ranks.size(), 2u);
  ASSERT_TRUE(plan.store && plan.store->served);
  EXPECT_EQ(plan.store->bytes.size(), 2u) << "a server each";
  EXPECT_FALSE(plan.store->served->updates_at_once) << "a norm is of all gradients";
  constexpr int64_t kKeys = 8;  // a weight and a bias of two convolutions and two linear layers
  int64_t gradients = 0;
  for (const parallel::StoreSlice& slice : plan.store->served->slices)
    gradients += slice.elements() * dtype_bytes(DType::f32);
  for (const auto& [rank, is_first] : {std::pair(&plan.ranks[0], true), {&plan.ranks[1], false}}) {
    int64_t pushed = 0, pushes = 0, pulls = 0;
    size_t last_push = 0;
    for (const LoggedCall& call : rank->calls) {
      if (!call.key) continue;
      EXPECT_EQ(call.is_awaited, is_first) << "the first rank of a process pulls for all";
      pushes += call.call.kind == CommKind::send;
      pulls += call.call.kind == CommKind::receive;
      pushed += call.sent_bytes;
      last_push = std::max(last_push, call.started_after);
    }
    EXPECT_EQ(pushes, kKeys);
    EXPECT_EQ(pulls, is_first ? kKeys : 0);
    EXPECT_EQ(pushed, gradients) << "to servers, or to the first rank";
    for (const LoggedCall& call : rank->calls) {
      if (!call.key || !is_first) continue;
      EXPECT_GE(call.awaited_after, last_push) << "backward goes on meanwhile";
    }
    EXPECT_LT(rank->calls.front().started_after, last_push) << "keys are pushed as they are complete";
  }
}

TEST(PlannedStep, OfDeferredUpdatesHasStepsThatFollowOnEachOther) {
  const auto plan_of = [](const std::string& overlap) {
    const train::Experiment experiment =
        experiment_of_lines(kLeNet + "threads: 1\nlearning_rate: 0.01\nepochs: 1\n" +
                            on(2, "{name: ddp, bucket_mb: 0.1, first_bucket_mb: 0.1, overlap: " + overlap + "}"));
    return planned_of(experiment, experiment.dataset.open());
  };
  EXPECT_TRUE(plan_of("true").following.empty());
  const plan::PlannedStep plan = plan_of("next_forward");
  ASSERT_EQ(plan.following.size(), 2u);
  for (size_t r = 0; r < 2; ++r) {
    const plan::FollowingSteps& steps = plan.following[r];
    ASSERT_GE(steps.ends.size(), 3u);
    const auto end = steps.ends.rbegin(), before = end + 1;
    EXPECT_EQ(end->operators - before->operators, plan.ranks[r].operators.size()) << "an update of the step before";
    EXPECT_EQ(end->calls - before->calls, plan.ranks[r].calls.size());
    ASSERT_GE(plan.ranks[r].calls.size(), 2u) << "buckets";
    size_t in_forward = 0;
    for (size_t k = (before + 1)->calls; k < before->calls; ++k) {
      EXPECT_GE(steps.calls[k].awaited_after, before->operators) << "of the step before, in the next one";
      EXPECT_LT(steps.calls[k].awaited_after, end->operators);
      in_forward += steps.calls[k].awaited_after > before->operators;
    }
    EXPECT_GE(in_forward, 1u) << "layers behind the first are updated behind its forward pass";
  }
}

TEST(PlannedStep, OfALargeWorldMakesNoMoreThanTheDevicesListed) {
  const train::Experiment experiment =
      experiment_of_lines(kLeNet + "threads: 1\nlearning_rate: 0.01\nepochs: 1\n" + on(2, "ddp"));
  const Datasets data = experiment.dataset.open();
  const plan::PlannedStep plan = planned_of(experiment, data, 16);
  EXPECT_EQ(plan.world_size, 32);
  ASSERT_EQ(plan.ranks.size(), 2u);
  EXPECT_EQ(plan.ranks[0].samples, 1);
  const int64_t gradients = plan.ranks[0].memory_at_peak[MemoryPurpose::weights];
  // A rank sends a 32nd of the 2 (N - 1) S bytes.
  EXPECT_NEAR(static_cast<double>(plan.ranks[0].sent.bytes), 2.0 * 31 / 32 * static_cast<double>(gradients), 1000);
}

}  // namespace
}  // namespace dptrain
