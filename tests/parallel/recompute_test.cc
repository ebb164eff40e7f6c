// Recomputing in the backward pass changes no bit and saves memory. ResNet-18's blocks each have a batch norm whose
// output only a convolution reads.
#include <gtest/gtest.h>

#include "device/cuda_probe.h"
#include "parallel/digits.h"

namespace dptrain::parallel {
namespace recompute_test {

struct Trained {
  std::vector<nn::NamedValues> state;
  std::vector<int64_t> activations;  ///< at each rank's peak
};

Trained trained(StrategyOptions options, Recompute recompute, int64_t batch) {
  options.model = "resnet18";
  options.sgd = {.momentum = 0.9};
  options.recompute = recompute;
  const auto strategy = make_strategy(options);
  train(*strategy, digits(2 * batch, 4), 2, batch, 0.01);
  Trained result;
  for (int rank = 0; rank < strategy->ranks(); ++rank)
    result.activations.push_back(strategy->take_costs(rank).memory_at_peak[MemoryPurpose::activations]);
  result.state = strategy->state_dict();
  return result;
}

void expect_saved(const Trained& again, const Trained& kept) {
  ASSERT_EQ(kept.state.size(), again.state.size());
  for (size_t t = 0; t < kept.state.size(); ++t)
    EXPECT_TRUE(kept.state[t].values == again.state[t].values) << kept.state[t].name;
  // Three of the ten tensors of the first blocks, which are the largest, are such outputs.
  for (size_t rank = 0; rank < kept.activations.size(); ++rank)
    EXPECT_LT(static_cast<double>(again.activations[rank]), 0.8 * static_cast<double>(kept.activations[rank]));
}

TEST(RecomputeTest, OfBatchNormsSavesMemoryAndChangesNoBit) {
  for (const char* name : {"single", "data_parallel", "ddp"}) {
    SCOPED_TRACE(name);
    const StrategyOptions options{.name = name, .devices = name == std::string("single") ? 1 : 2};
    const Trained kept = trained(options, Recompute::none, 4), again = trained(options, Recompute::automatic, 4);
    expect_saved(again, kept);
  }
}

TEST(CudaRecomputeTest, OfBatchNormsSavesMemoryAndChangesNoBit) {
  if (cuda_devices().empty()) GTEST_SKIP() << "no GPU: " << cuda_absence();
  const StrategyOptions options{.name = "single", .list = {{DeviceKind::cuda, 0}}};
  // On a real GPU the activations must always be larger than the convolutions' workspaces.
  const int64_t batch = cuda_devices().front().name.starts_with("Simulated") ? 2 : 256;
  const Trained kept = trained(options, Recompute::none, batch), again = trained(options, Recompute::batch_norm, batch);
  expect_saved(again, kept);
  EXPECT_EQ(trained(options, Recompute::automatic, batch).activations, kept.activations);
}

}  // namespace recompute_test
}  // namespace dptrain::parallel
