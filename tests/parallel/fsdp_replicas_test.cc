// fsdp with several whole copies of the weights, each sharded over a part of the devices.
#include <gtest/gtest.h>

#include "parallel/checkpointed.h"
#include "parallel/digits.h"
#include "parallel/residual_net.h"

namespace dptrain::parallel {
namespace {

/// The ranks of a replica are a subtree of the tree of sums, so the order of sums stays.
TEST(FsdpReplicas, EndInTheBitsOfDdp) {
  struct Row {
    int devices, replicas;
  };
  for (const Row& row : {Row{4, 2}, Row{6, 3}, Row{8, 2}, Row{8, 4}})
    for (const Precision precision : {Precision::fp32, Precision::bf16})
      for (const int64_t micro_batches : {1, 3}) {
        SCOPED_TRACE(::testing::Message() << row.replicas << " replicas on " << row.devices << " devices, precision "
                                          << static_cast<int>(precision) << ", " << micro_batches << " micro-batches");
        StrategyOptions options = adam_on("ddp", row.devices);
        options.net = residual_net();
        options.precision = precision;
        options.micro_batches = micro_batches;
        options.clip_norm = 0.5;
        options.average_decay = 0.9;
        const TrainingState whole = state_after(options);
        options.fsdp = {.unit_mb = 0.01, .replicas = row.replicas};
        for (const char* name : {"fsdp", "fsdp_kept"}) {
          options.name = name;
          expect_same_states(state_after(options), whole);
        }
      }
}

/// Three ranks are no subtree: ddp adds ((0+1)+(2+3))+(4+5), two replicas add ((0+1)+2)+((3+4)+5).
TEST(FsdpReplicas, OfThreeDevicesAddInAnOrderOfTheirOwn) {
  StrategyOptions options{.devices = 6, .sgd = {.momentum = 0.9}};
  const Datasets data = digits(120, 10);
  const auto ddp = make_strategy(options);
  const auto expected = train(*ddp, data, 4, 30, 0.05);
  options.name = "fsdp";
  options.fsdp.replicas = 2;
  const auto copies = make_strategy(options);
  const auto losses = train(*copies, data, 4, 30, 0.05);
  for (size_t step = 0; step < losses.size(); ++step) EXPECT_NEAR(losses[step], expected[step], 1e-5 * expected[step]);
  EXPECT_EQ(copies->training_state().model.size(), ddp->training_state().model.size());
}

TEST(FsdpReplicas, GoOnFromCheckpointsAsDdpDoes) {
  const auto options_of = [](const char* name, int devices) {
    StrategyOptions options = adam_on(name, devices);
    options.average_decay = 0.9;
    options.precision = Precision::bf16;
    return options;
  };
  const TrainingState start = state_after(options_of("fsdp", 3));
  const auto goes_on = [&](const StrategyOptions& options) {
    const auto strategy = make_strategy(options);
    strategy->restore(start);
    expect_same_states(strategy->training_state(), start);
    train(*strategy, digits(400, 10), 3, 40, 0.01);
    return strategy->training_state();
  };
  StrategyOptions of_replicas = options_of("fsdp", 4);
  of_replicas.fsdp.replicas = 2;
  expect_same_states(goes_on(of_replicas), goes_on(options_of("ddp", 4)));
}

/// Weights stay within a replica. Between replicas, only sums of the parts of gradients are sent.
TEST(FsdpReplicas, SendGradientsToEachOther) {
  const auto bytes_of = [](int devices, int replicas) {
    return bytes_of_step({.name = "fsdp", .devices = devices, .fsdp = {.unit_mb = 1e-6, .replicas = replicas}});
  };
  const double two_replicas = bytes_of(4, 2), all_gradients = bytes_of_step({.name = "ddp", .devices = 2});
  EXPECT_NEAR(two_replicas, 2 * bytes_of(2, 1) + all_gradients, 0.001 * two_replicas) << "but for what pads parts";
  EXPECT_LT(two_replicas, bytes_of(4, 1));
}

/// Replica 1 goes on from its own wrong weight.
TEST(FsdpReplicas, AreComparedPartByPart) {
  for (const bool is_flipped : {false, true}) {
    const StrategyOptions options{.name = "fsdp", .devices = 4, .fsdp = {.replicas = 2}};
    StrategyContext context = context_of(options);
    if (is_flipped)
      context.faults.push_back({.kind = InjectedFault::Kind::flip, .rank = 3, .step = 2, .parameter = "fc1.weight"});
    const auto strategy = make_strategy(options, context);
    train(*strategy, digits(100, 10), 4, 25, 0.01);
    const auto difference = find_weight_difference(strategy->weight_digests());
    ASSERT_EQ(difference.has_value(), is_flipped);
    if (!is_flipped) continue;
    EXPECT_EQ(difference->tensor, "fc1.weight");
    EXPECT_EQ(difference->rank, 3);
    EXPECT_EQ(difference->other, 1);
  }
}

TEST(FsdpReplicas, AreEvaluatedAsDdpIs) {
  const Datasets data = digits(100, 30);
  const auto losses = [&](const char* name) {
    StrategyOptions options = adam_on(name, 4);
    options.average_decay = 0.5;
    options.fsdp.replicas = 2;
    const auto strategy = make_strategy(options);
    train(*strategy, data, 2, 20, 0.01);
    strategy->measure_speeds(*data.train, 20);
    return strategy->evaluate(*data.test, {.stopped = [] { return false; }})->mean_loss();
  };
  EXPECT_EQ(losses("fsdp"), losses("ddp"));
}

}  // namespace
}  // namespace dptrain::parallel
