// Costs that strategies on GPUs count: memory and times. Steps allocate no more memory once every size has occurred.

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <span>
#include <string>

#include "parallel/gpu_strategies.h"
#include "parallel/many_digits.h"
#include "parallel/residual_net.h"

namespace dptrain::parallel {
namespace gpu_costs_test {

class CudaCosts : public CudaStrategies {};

TEST_F(CudaCosts, MemoryAndTimesAreCountedInRecordedSteps) {
  const auto strategy = make_strategy({.name = "single", .list = {kGpu}});
  const ImageDatasets data = digits(96, 10);
  train(*strategy, data, 1, 32, 0.05);
  const RankCosts first = strategy->take_costs(0);
  train(*strategy, data, 3, 32, 0.05);
  const RankCosts recorded = strategy->take_costs(0);
  EXPECT_EQ(recorded.samples, 96);
  EXPECT_GT(recorded.times[Phase::compute], 0);
  EXPECT_GT(recorded.times[Phase::optimizer], 0);
  EXPECT_GT(recorded.memory_at_peak[MemoryPurpose::activations], 0);
  EXPECT_NEAR(static_cast<double>(recorded.peak_bytes), static_cast<double>(first.peak_bytes),
              0.1 * static_cast<double>(first.peak_bytes));
}

TEST_F(CudaCosts, OnlyGpusThatReadTheDataSetHoldIt) {
  const ImageDatasets data = many_digits();
  const auto bytes = data.train->samples() * data.train->image_shape().elements();
  const auto held = [&](const char* name, int rank) {
    const auto strategy = make_strategy({.name = name, .list = {kGpu, kGpu}});
    train(*strategy, data, 1, 16, 0.05);
    return strategy->take_costs(rank).memory_at_peak[MemoryPurpose::workspace];
  };
  EXPECT_GT(held("data_parallel", 0), bytes);
  EXPECT_LT(held("data_parallel", 1), bytes);
  EXPECT_GT(held("ddp", 1), bytes);
}

/// A memory limit leaves room for everything except the data set. Weights are bit-identical where samples come with the
/// batches.
TEST_F(CudaCosts, ADataSetThatDoesNotFitComesBatchByBatch) {
  const ImageDatasets data = many_digits();
  const auto bytes = data.train->samples() * data.train->image_shape().elements();
  const auto expect_alike = [&](StrategyOptions options, int64_t batch) {
    options.sgd = {.momentum = 0.9};
    const auto outcome = [&] {
      const auto strategy = make_strategy(options);
      auto losses = train(*strategy, data, 6, batch, 0.05, options.micro_batches);
      return std::pair(Trained{strategy->state_dict(), std::move(losses)}, strategy->take_costs(0).peak_bytes);
    };
    const auto [whole, peak_bytes] = outcome();
    options.memory_limit_bytes = peak_bytes - bytes / 2;
    const auto [sent, less_bytes] = outcome();
    expect_same_bits(sent, whole);
    EXPECT_LE(less_bytes, options.memory_limit_bytes);
  };
  for (const char* name : {"single", "ddp", "data_parallel", "model_parallel"}) {
    SCOPED_TRACE(name);
    StrategyOptions options{.name = name, .micro_batches = 2};
    options.list.assign(std::string(name) == "single" ? 1 : 2, kGpu);
    options.pipeline = {.cut = {.entries = {"1", "2"}}, .micro_batches = 2};
    expect_alike(options, 15);
  }
  // Both devices pass through the model, and the first never has a sample.
  SCOPED_TRACE("without samples");
  expect_alike({.name = "ddp", .net = residual_net(), .list = {kGpu, kGpu}, .batch_norm = BatchNormMode::sync}, 1);
}

TEST_F(CudaCosts, StepsThatImagesComeWithAreReplayed) {
  using How = StepRecorder::How;
  const ImageDatasets data = many_digits();
  // The limit has room for the images and little more; half of it is too little.
  const auto device = open_device(kGpu, {.memory_limit_bytes = 200'000'000});
  device->enter_thread();
  Replica replica(*device, context_of({.list = {kGpu}}).replica, ReplicaDuties());
  std::vector<How> hows;
  std::vector<double> losses;
  for (int64_t step = 1; step <= 4; ++step) {
    const BatchPart part = load_part(*data.train, std::vector<int64_t>{step, 1000 + step, 7, 1999}, *device);
    const StepParts parts = {&part};
    replica.begin_step(parts, {.step = step, .epoch = 1, .learning_rate = 0}, {.counts = {4}, .samples = 4});
    hows.push_back(replica.run_section(StepRecorder::Section::passes, parts, [&](How) {
      replica.forward_backward(parts, {});
      replica.update();
      replica.exchange().publish();
    }));
    replica.exchange().end();
    losses.push_back(replica.take_results(/*all=*/true).at(0).outputs.at(0).losses.at(2));
  }
  EXPECT_EQ(hows, (std::vector{How::done, How::recorded, How::replayed, How::replayed}));
  EXPECT_GT(losses[0], 0);
  // With a learning rate of 0 an image has the same loss in every step, whichever other images are in its batch.
  EXPECT_EQ(losses, std::vector(4, losses[0]));
}

TEST_F(CudaCosts, NoMemoryIsTakenOnceEverySizeHasBeenSeen) {
  const ImageDatasets data = digits(88, 10);  // batches of 16, and one of 8
  for (const char* name : {"single", "ddp", "ddp_sharded", "kvstore", "model_parallel"}) {
    SCOPED_TRACE(name);
    StrategyOptions options{.name = name, .list = std::vector<DeviceId>(name[0] == 's' ? 1 : 2, kGpu)};
    options.pipeline = {.cut = {.entries = {"1", "2"}}, .micro_batches = 2};
    const auto strategy = make_strategy(options);
    const auto train_epochs = [&] {
      for (int epoch = 0; epoch < 2; ++epoch) train(*strategy, data, 6, 16, 0.05, 2);
    };
    const auto taken = [&] {
      int64_t calls = 0;
      for (int rank = 0; rank < strategy->ranks(); ++rank) calls += strategy->device(rank).allocator().source_calls();
      return calls;
    };
    // In one epoch every size is run, and in the next every size is recorded.
    train_epochs();
    const int64_t before = taken();
    train_epochs();
    EXPECT_EQ(taken(), before);
  }
}

/// These are the numbers of docs/gpu.md for replicas on one GPU.
TEST_F(CudaCosts, StepsThatAreGraphsAreCounted) {
  const auto graph_steps = [](StrategyOptions options) {
    options.list.assign(options.name == "single" ? 1 : 2, kGpu);
    options.pipeline = {.cut = {.entries = {"1", "2"}}, .micro_batches = 2};
    const auto strategy = make_strategy(options);
    train(*strategy, digits(88, 10), 6, 16, 0.05, 2);  // five batches of 16 samples, and one of 8
    std::set<int64_t> counts;
    for (int rank = 0; rank < strategy->ranks(); ++rank) counts.insert(strategy->take_costs(rank).graph_steps);
    return counts;
  };
  for (const char* name : {"single", "ddp", "ddp_sharded", "ddp_bf16", "ddp_powersgd", "kvstore", "kvstore_local",
                           "local_sgd", "data_parallel", "model_parallel"})
    EXPECT_EQ(graph_steps({.name = name}), std::set<int64_t>{4}) << name;
  EXPECT_EQ(graph_steps({.name = "fsdp"}), std::set<int64_t>{0});
  EXPECT_EQ(graph_steps({.net = residual_net(), .batch_norm = BatchNormMode::sync}), std::set<int64_t>{0});
}

}  // namespace gpu_costs_test
}  // namespace dptrain::parallel
