// fsdp gives bit-identical weights to ddp in a part of the memory, and resumes from any strategy's checkpoint.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "parallel/checkpointed.h"
#include "parallel/digits.h"
#include "parallel/half_used_net.h"
#include "parallel/played_processes.h"
#include "parallel/residual_net.h"
#include "parallel/trained_state.h"
#include "support/expect_error.h"

namespace dptrain::parallel {
namespace fsdp_test {

/// The last step has ten samples: devices have one or two each, and in micro-batches some devices have none.
TEST(Fsdp, EndsInTheBitsOfDdp) {
  for (const int devices : {1, 2, 3, 4, 7})
    for (const int64_t micro_batches : {1, 3})
      for (const double unit_mb : {0.0, 1e-6, 1.0})
        for (const char* name : {"fsdp", "fsdp_kept"}) {
          SCOPED_TRACE(::testing::Message() << name << " on " << devices << " devices, units of " << unit_mb << " MiB, "
                                            << micro_batches << " micro-batches");
          StrategyOptions options = adam_on("ddp", devices);
          options.micro_batches = micro_batches;
          const TrainingState whole = state_after(options);
          options.name = name;
          options.fsdp.unit_mb = unit_mb;
          expect_same_states(state_after(options), whole);
        }
}

TEST(Fsdp, ClipsAndAveragesInTheBitsOfDdp) {
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const int devices : {1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << devices << " devices, precision " << static_cast<int>(precision));
      StrategyOptions options = adam_on("ddp", devices);
      options.net = residual_net();
      options.precision = precision;
      options.clip_norm = 0.5;
      options.average_decay = 0.9;
      const TrainingState whole = state_after(options);
      for (const char* name : {"fsdp", "fsdp_kept"}) {
        options.name = name;
        expect_same_states(state_after(options), whole);
      }
    }
}

TEST(Fsdp, MeasuresLayersInTheBitsOfDdp) {
  for (const int devices : {1, 3}) {
    StrategyOptions lars{.name = "ddp", .devices = devices, .lars = optim::LarsSettings{.trust_coefficient = 0.05}};
    StrategyOptions lamb{.name = "ddp", .devices = devices, .lamb = optim::LambSettings{}};
    for (StrategyOptions* options : {&lars, &lamb}) {
      const TrainingState whole = state_after(*options);
      options->name = "fsdp";
      expect_same_states(state_after(*options), whole);
    }
  }
}

TEST(Fsdp, AParameterThatNobodyUsesHasAGradientOfZero) {
  const Datasets data = digits(40, 4);
  const auto trained = [&](const char* name) {
    StrategyOptions options{.name = name, .net = half_used_net(), .devices = 3, .sgd = {.momentum = 0.9}};
    options.find_unused = true;
    options.fsdp.unit_mb = 1e-6;
    const auto strategy = make_strategy(options);
    train_steps_as_epochs(*strategy, data, {.first = 1, .last = 4, .batch = 8, .micro_batches = 2});
    return strategy->state_dict();
  };
  expect_same_bits(trained("fsdp"), trained("ddp"));
}

TEST(Fsdp, CheckpointsAreThoseOfDdpOnAnyDevices) {
  const Datasets data = digits(400, 10);
  const auto options_of = [](const char* name, int devices) {
    StrategyOptions options = adam_on(name, devices);
    options.average_decay = 0.9;
    options.precision = Precision::bf16;
    return options;
  };
  const auto goes_on = [&](const TrainingState& from, const char* name, int devices) {
    const auto strategy = make_strategy(options_of(name, devices));
    strategy->restore(from);
    train(*strategy, data, 3, 40, 0.01);
    return strategy->training_state();
  };
  const TrainingState start = state_after(options_of("fsdp", 3));
  for (const int devices : {1, 2, 4})
    expect_same_states(goes_on(start, "fsdp", devices), goes_on(start, "ddp", devices));
  // Saving right after a restore gives the same state. Whatever isn't in a checkpoint starts anew.
  const auto restored = make_strategy(options_of("fsdp", 2));
  restored->restore(start);
  expect_same_states(restored->training_state(), start);
  TrainingState weights{.model = start.model, .optimizer = {}, .average = {}, .loss_scale = {}};
  expect_same_states(goes_on(weights, "fsdp", 2), goes_on(weights, "ddp", 2));
}

TEST(Fsdp, IsEvaluatedAsDdpIsAndGoesOnAfterIt) {
  const Datasets data = digits(100, 30);
  const auto trained = [&](const char* name) {
    StrategyOptions options = adam_on(name, 3);
    options.average_decay = 0.5;
    const auto strategy = make_strategy(options);
    std::vector<double> losses;
    for (int round = 0; round < 2; ++round) {
      train(*strategy, data, 2, 20, 0.01);
      losses.push_back(strategy->evaluate(*data.test, {.stopped = [] { return false; }})->mean_loss());
      EXPECT_FALSE(strategy->evaluate(*data.test, {.stopped = [] { return true; }}));
      strategy->measure_speeds(*data.train, 20);
    }
    return Trained{.state = strategy->training_state().model, .losses = losses};
  };
  expect_same_bits(trained("fsdp"), trained("ddp"));
}

/// There are more blocks than devices, and the last round isn't full. `stopped` is asked before each block, and a
/// device that hears yes ends the evaluation on all devices.
TEST(Fsdp, AnEvaluationThatIsStoppedEndsOnAllDevicesAndChangesNothing) {
  const Datasets data = digits(60, 1300);
  const auto strategy = make_strategy(adam_on("fsdp", 2)), other = make_strategy(adam_on("fsdp", 2));
  train(*strategy, data, 2, 20, 0.01);
  train(*other, data, 2, 20, 0.01);
  for (const int after : {0, 1, 2, 3, 4}) {
    std::atomic<int> asked = 0;
    EXPECT_FALSE(strategy->evaluate(*data.test, {.stopped = [&] { return asked++ >= after; }})) << after;
  }
  const auto score = strategy->evaluate(*data.test, {.stopped = [] { return false; }});
  ASSERT_TRUE(score);
  EXPECT_EQ(score->samples, 1300);
  train(*strategy, data, 2, 20, 0.01);
  train(*other, data, 2, 20, 0.01);
  expect_same_bits(strategy->state_dict(), other->state_dict());
}

/// Memory of devices that train a ResNet-18: 11.2 million weights, of which the last block has 4.7 million and the
/// block before 3.7 million.
class FsdpMemory : public ::testing::Test {
 protected:
  static constexpr int kDevices = 4;

  struct Held {
    MemoryCounts between_steps;
    MemoryCounts at_peak;
  };
  static Held held(const char* name, Precision precision = Precision::fp32) {
    StrategyOptions options = adam_on(name, kDevices);
    options.model = "resnet18";
    options.precision = precision;
    const auto strategy = make_strategy(options);
    train(*strategy, digits(8, 4), 2, 4, 0.001);
    strategy->take_scores(true);
    return {.between_steps = strategy->device(1).allocator().in_use(),
            .at_peak = strategy->take_costs(1).memory_at_peak};
  }
};

TEST_F(FsdpMemory, IsAPartOfEverythingBetweenSteps) {
  const Held ddp = held("ddp"), fsdp = held("fsdp");
  for (const MemoryPurpose purpose : {MemoryPurpose::weights, MemoryPurpose::optimizer})
    EXPECT_NEAR(static_cast<double>(fsdp.between_steps[purpose]),
                static_cast<double>(ddp.between_steps[purpose]) / kDevices,
                0.01 * static_cast<double>(ddp.between_steps[purpose]));
  const int64_t whole = ddp.between_steps[MemoryPurpose::weights];
  EXPECT_NEAR(static_cast<double>(fsdp.between_steps[MemoryPurpose::gradients]), static_cast<double>(whole) / kDevices,
              0.01 * static_cast<double>(whole));
}

TEST_F(FsdpMemory, HasTwoUnitsBesideThatInAStep) {
  constexpr double kLast = 4 * 4.72e6, kBefore = 4 * 3.67e6;
  const Held ddp = held("ddp"), fsdp = held("fsdp"), kept = held("fsdp_kept");
  const auto weights = [](const Held& of) { return static_cast<double>(of.at_peak[MemoryPurpose::weights]); };
  EXPECT_LT(weights(fsdp), weights(ddp) / kDevices + 1.02 * (kLast + kBefore));
  EXPECT_LE(weights(kept), 1.3 * weights(ddp)) << "all of them, and the own part";
  EXPECT_LT(static_cast<double>(fsdp.at_peak[MemoryPurpose::gradients]),
            weights(ddp) / kDevices + 1.02 * (kLast + kBefore));
}

/// An evaluation gathers one unit at a time, and saving reads the weights one parameter at a time.
TEST_F(FsdpMemory, IsNoMoreWhereItIsEvaluatedOrSaved) {
  StrategyOptions options = adam_on("fsdp", kDevices);
  options.model = "resnet18";
  options.average_decay = 0.9;
  const auto strategy = make_strategy(options);
  const Datasets data = digits(8, 10);
  train(*strategy, data, 2, 4, 0.001);
  strategy->take_scores(true);
  const auto most_in = [&](const auto& work) {
    for (int rank = 0; rank < kDevices; ++rank) strategy->take_costs(rank);
    work();
    int64_t most = 0;
    for (int rank = 0; rank < kDevices; ++rank) most = std::max(most, strategy->take_costs(rank).peak_bytes);
    return static_cast<double>(most - strategy->device(0).allocator().in_use().total_bytes());
  };
  constexpr double kLast = 4 * 4.72e6, kBefore = 4 * 3.67e6, kLargest = 4 * 512 * 512 * 9, kMore = 2e6;
  EXPECT_LT(most_in([&] { strategy->evaluate(*data.test, {.stopped = [] { return false; }}); }),
            kLast + kBefore + 4 * 2.8e6 + kMore)
      << "two units, the average's place and a few activations";
  TrainingState state;
  EXPECT_LT(most_in([&] { state = strategy->training_state(); }), 2 * kLargest + kMore);
  EXPECT_LT(most_in([&] { strategy->restore(state); }), 3 * kLargest + kMore);
  EXPECT_LT(most_in([&] { strategy->for_each_state([](const nn::NamedValues&) {}); }), 2 * kLargest + kMore);
}

TEST_F(FsdpMemory, GathersHalfAsMuchInHalfPrecision) {
  const auto gathered = [](const Held& of) {
    return of.at_peak[MemoryPurpose::weights] - of.between_steps[MemoryPurpose::weights];
  };
  EXPECT_NEAR(static_cast<double>(gathered(held("fsdp", Precision::bf16))),
              0.5 * static_cast<double>(gathered(held("fsdp"))), 0.02 * static_cast<double>(gathered(held("fsdp"))));
}

/// Each device sends gradients (N - 1) / N times, and weights as often as they are gathered: each unit twice, except
/// the last two. These are still gathered when the backward pass reaches them.
TEST(Fsdp, SendsWhatItsUnitsSay) {
  for (const int devices : {1, 2, 3, 4}) {
    SCOPED_TRACE(devices);
    const auto bytes_of = [&](const char* name, double unit_mb) {
      StrategyOptions options{.name = name, .devices = devices};
      options.fsdp.unit_mb = unit_mb;
      return bytes_of_step(options);
    };
    const double ddp = bytes_of("ddp", 0);
    EXPECT_NEAR(bytes_of("fsdp_kept", 1e-6), ddp, 0.001 * ddp) << "but for what pads parts";
    EXPECT_NEAR(bytes_of("fsdp", 1), ddp, 0.001 * ddp);
    // conv1 is the only unit that isn't among the last two, and so the only one gathered twice.
    EXPECT_NEAR(bytes_of("fsdp", 1e-6), ddp, 0.01 * ddp);
    EXPECT_GE(bytes_of("fsdp", 1e-6), bytes_of("fsdp_kept", 1e-6) + (devices - 1) * 4 * 150);
  }
}

/// Each rank takes its part of the weights and of the optimizer's state from the checkpoint that its own process has
/// read.
TEST(Fsdp, ProcessesThatReadUnlikeCheckpointsGoNoFurther) {
  const TrainingState one = state_after(adam_on("fsdp", 2), 2);
  TrainingState other = one;
  other.optimizer.back().values.back() += 1;
  const PlayedProcesses processes(adam_on("fsdp", 2), context_of(adam_on("fsdp", 2)), {1, 1});
  const auto sentences_of = [&](const TrainingState& second) {
    return processes.run([&](int process, Strategy& strategy) { strategy.restore(process == 0 ? one : second); });
  };
  EXPECT_EQ(sentences_of(one), std::vector<std::string>(2));
  for (const std::string& sentence : sentences_of(other))
    EXPECT_NE(sentence.find("got different ones on rank 1 and rank 0; start all processes alike"), std::string::npos)
        << sentence;
}

TEST(Fsdp, WithoutMemoryToBeginWithIsRefused) {
  StrategyOptions options = adam_on("fsdp", 2);
  options.memory_limit_bytes = 100'000;
  testing::expect_error(ExitCode::device, {"start", "a limit of 100000"}, [&] { make_strategy(options); });
}

/// All devices use one device's wrong weight in the next step.
TEST(Fsdp, AFaultOfAWeightIsOfWhatTheDeviceHas) {
  using Kind = InjectedFault::Kind;
  const Datasets data = digits(80, 4);
  const auto losses_with = [&](const InjectedFault& fault) {
    StrategyContext context = context_of({.name = "fsdp", .devices = 3});
    context.faults.push_back(fault);
    const auto strategy = make_strategy({.name = "fsdp", .devices = 3}, context);
    return train(*strategy, data, 4, 20, 0.1);
  };
  const std::vector<double> usual = losses_with({.kind = Kind::slow, .rank = 1, .step = 1});
  for (const int rank : {0, 1, 2}) {
    const std::vector<double> flipped = losses_with({.kind = Kind::flip, .rank = rank, .step = 2});
    EXPECT_EQ(std::vector(flipped.begin(), flipped.begin() + 2), std::vector(usual.begin(), usual.begin() + 2));
    EXPECT_NE(flipped[2], usual[2]) << rank;
    EXPECT_TRUE(std::isnan(losses_with({.kind = Kind::nan, .rank = rank, .step = 2, .parameter = "fc1.weight"})[2]));
  }
  testing::expect_error(ExitCode::usage, {"--fault", "rank 0", "'conv1.bias'", "other ranks have all of it"},
                        [&] { losses_with({.kind = Kind::flip, .rank = 0, .step = 1, .parameter = "conv1.bias"}); });
}

}  // namespace fsdp_test
}  // namespace dptrain::parallel
