// What strategies on GPUs count: memory, times, and that steps take no more memory once every size has been seen.

#include <gtest/gtest.h>

#include "parallel/gpu_strategies.h"

namespace dptrain::parallel {
namespace {

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
  const ImageDatasets data = digits(2000, 10);
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

TEST_F(CudaCosts, NoMemoryIsTakenOnceEverySizeHasBeenSeen) {
  const ImageDatasets data = digits(88, 10);  // batches of 16, and one of 8
  for (const char* name : {"single", "ddp"}) {
    SCOPED_TRACE(name);
    const auto strategy = make_strategy({.name = name, .list = std::vector<DeviceId>(name[0] == 's' ? 1 : 2, kGpu)});
    // An epoch in which every size is done, and one in which all are recorded.
    for (int epoch = 0; epoch < 2; ++epoch) train(*strategy, data, 6, 16, 0.05);
    const int64_t taken = strategy->device(0).allocator().source_calls();
    for (int epoch = 0; epoch < 2; ++epoch) train(*strategy, data, 6, 16, 0.05);
    EXPECT_EQ(strategy->device(0).allocator().source_calls(), taken);
  }
}

}  // namespace
}  // namespace dptrain::parallel
