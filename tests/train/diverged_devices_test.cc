// A device whose weights or losses go wrong ends the run, by name, before a checkpoint stores them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "support/expect_error.h"
#include "support/process.h"
#include "train/experiment_of.h"

namespace dptrain::train {
namespace {

using parallel::InjectedFault;
using Kind = InjectedFault::Kind;
using testing::expect_error;
using testing::ScratchFolder;

/// Trains while a weight goes wrong.
void train(const ScratchFolder& folder, const InjectedFault& fault, const std::vector<std::string>& overrides) {
  Experiment experiment = experiment_of(overrides);
  experiment.faults = {fault};
  const StopSignal stop = 0;
  RecordingObserver observer;
  RunDirectory directory(folder.path(), EarlierRun::overwrite);
  Trainer(experiment, experiment.dataset.open()).run(directory, observer, stop);
}

size_t checkpoints(const ScratchFolder& folder) {
  std::error_code none;
  const std::filesystem::directory_iterator all(folder.path() / "checkpoints", none);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

struct Way {
  std::string name;
  std::vector<std::string> overrides;
  int rank = 1;
  int64_t step = 2;
  std::string parameter = "conv1.weight";
  int other = 0;
  /// The number of checkpoints of earlier steps.
  size_t checkpoints = 0;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

/// An epoch has three steps.
class FlippedBit : public ::testing::TestWithParam<Way> {};

TEST_P(FlippedBit, EndsTheTrainingBeforeItIsKept) {
  const Way& way = GetParam();
  const ScratchFolder folder;
  const std::string got = fmt::format(
      "expected {} to be bit-identical on all devices, got different bits on rank {} "
      "(cpu:{}) than on rank {} (cpu:{}); ",
      way.parameter, way.rank, way.rank, way.other, way.other);
  expect_error(ExitCode::diverged, {"step ", ", epoch ", got}, [&] {
    train(folder, {.kind = Kind::flip, .rank = way.rank, .step = way.step, .parameter = way.parameter}, way.overrides);
  });
  EXPECT_EQ(checkpoints(folder), way.checkpoints);
}

constexpr const char* kFour = "devices=[cpu:0, cpu:1, cpu:2, cpu:3]";

INSTANTIATE_TEST_SUITE_P(
    Ways, FlippedBit,
    ::testing::Values(
        Way{"ddp", {}}, Way{.name = "of_three", .overrides = {"devices=[cpu:0, cpu:1, cpu:2]"}, .rank = 0, .other = 1},
        Way{"without_evaluation", {"eval_every=0", "checkpoint.every_epochs=0"}},
        Way{.name = "second_epoch", .overrides = {}, .step = 5, .checkpoints = 1},
        Way{.name = "by_steps", .overrides = {"checkpoint={every_epochs: 0, every_steps: 1}"}, .checkpoints = 1},
        Way{"shard_optimizer", {"strategy={name: ddp, shard_optimizer: true}"}, 1, 3},
        Way{"next_forward", {"strategy={name: ddp, overlap: next_forward}"}},
        Way{"compressed", {"strategy={name: ddp, compress: {name: powersgd, rank: 1}}"}},
        Way{"accumulated", {"accumulate=2"}}, Way{"average", {"ema=0.9"}},
        // The pulled weights are wrong until the next step pulls again.
        Way{"kvstore", {"strategy=kvstore"}, 1, 3},
        Way{"kvstore_local", {"strategy={name: kvstore, type: local}"}, 1, 3},
        Way{"hybrid", {kFour, "strategy={name: hybrid, model_parallel: 2, micro_batches: 2}"}, 3, 2, "fc2.weight", 1}),
    [](const auto& test) { return test.param.name; });

TEST(NoFlippedBit, IsFoundWhereDevicesHaveCopiesForAStepAlone) {
  const ScratchFolder folder;
  for (const char* strategy : {"strategy=data_parallel", "strategy={name: data_parallel, criterion: parallel}"}) {
    train(folder, {.kind = Kind::flip, .rank = 1, .step = 2, .parameter = "conv1.weight"}, {strategy});
    EXPECT_EQ(checkpoints(folder), 2u);
  }
}

TEST(NoFlippedBit, IsFoundInStatisticsThatAreEachDevicesOwn) {
  for (const char* mode : {"local", "sync", "average", "first"}) {
    const ScratchFolder folder;
    train(folder, {.kind = Kind::flip, .rank = 9, .step = 1},
          {"model={name: pyramidnet, alpha: 48, depth: 3, blocks: 3}", std::string("batch_norm=") + mode,
           "dataset={name: synthetic, samples: 40, test_samples: 20, shape: [3, 32, 32]}"});
    EXPECT_EQ(checkpoints(folder), 2u);
  }
}

TEST(DivergedLosses, NameTheDeviceThatAloneHasThem) {
  const std::map<std::string, std::string> ranks = {
      {"strategy=ddp", "rank 1 (cpu:1)"},
      {"strategy=kvstore", "rank 1 (cpu:1)"},
      {"strategy={name: hybrid, model_parallel: 2, micro_batches: 2}", "rank 3 (cpu:3)"}};
  for (const auto& [strategy, rank] : ranks) {
    const ScratchFolder folder;
    const bool is_hybrid = strategy.find("hybrid") != std::string::npos;
    const InjectedFault fault{.kind = Kind::nan, .rank = is_hybrid ? 3 : 1, .step = 1, .parameter = "fc2.weight"};
    expect_error(ExitCode::diverged,
                 {"step 2, epoch 1: training diverged: the loss of " + rank +
                  " is no longer finite; the learning rate of this step was "},
                 [&] {
                   train(folder, fault, {strategy, is_hybrid ? kFour : "devices=[cpu:0, cpu:1]"});
                 });
    EXPECT_EQ(checkpoints(folder), 0u);
  }
}

TEST(DivergedLosses, OfAllDevicesNameNone) {
  const ScratchFolder folder;
  expect_error(ExitCode::diverged, {"training diverged: the loss is no longer finite; "}, [&] {
    train(folder, {.kind = Kind::nan, .rank = 0, .step = 1, .parameter = "fc2.weight"}, {"strategy=data_parallel"});
  });
}

}  // namespace
}  // namespace dptrain::train
