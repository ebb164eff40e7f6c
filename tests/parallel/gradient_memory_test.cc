// When gradients have memory: under single and ddp on CPU workers, from the backward pass to the update, and in no
// forward pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "parallel/digits.h"

namespace dptrain::parallel {
namespace gradient_memory_test {

/// Records the bytes of gradients that a device holds during steps.
class HeldGradients final : public StepObserver {
 public:
  void on_stage(const nn::Model& model, int, const Tensor&, const Tensor&) override { note(model, most_in_forward); }
  void on_gradients(const nn::Model& model, const Tensor&, int64_t) override { note(model, most_in_update); }

  int64_t most_in_forward = 0;
  int64_t most_in_update = 0;

 private:
  void note(const nn::Model& model, int64_t& most) {
    const std::lock_guard lock(mutex_);
    most = std::max(most, model.device().allocator().in_use()[MemoryPurpose::gradients]);
  }
  std::mutex mutex_;
};

struct Trained {
  HeldGradients held;
  std::vector<MemoryCounts> at_peak;  ///< for each rank
  std::vector<nn::NamedValues> state;
  int64_t gradient_bytes = 0;  ///< of one replica, without padding
};

void train_into(Trained& trained, const StrategyOptions& options, int64_t micro_batches = 1) {
  StrategyContext context = context_of(options);
  context.replica.observer = &trained.held;
  const auto strategy = make_strategy(options, context);
  train(*strategy, digits(24, 4), 3, 8, 0.01, micro_batches);
  for (int rank = 0; rank < strategy->ranks(); ++rank)
    trained.at_peak.push_back(strategy->take_costs(rank).memory_at_peak);
  trained.state = strategy->state_dict();
  for (const nn::NamedValues& tensor : trained.state)
    if (tensor.name.find("running") == std::string::npos) trained.gradient_bytes += 4 * tensor.shape.elements();
}

StrategyOptions with_momentum(const std::string& name, int devices) {
  return {.name = name, .model = "resnet18", .devices = devices, .sgd = {.momentum = 0.9}};
}

struct Case {
  const char* name;
  int devices;
};
constexpr Case kCases[] = {{"single", 1}, {"ddp", 1}, {"ddp", 2}};

TEST(GradientMemory, IsNotHeldInForwardPasses) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(::testing::Message() << one.name << " on " << one.devices);
    Trained trained;
    train_into(trained, with_momentum(one.name, one.devices));
    EXPECT_EQ(trained.held.most_in_forward, 0);
    EXPECT_GE(trained.held.most_in_update, trained.gradient_bytes);
    // The counts at the peak are what was held then, including all weights and all of the momentum.
    for (const MemoryCounts& counts : trained.at_peak) {
      EXPECT_GE(counts[MemoryPurpose::weights], trained.gradient_bytes);
      EXPECT_GE(counts[MemoryPurpose::optimizer], trained.gradient_bytes);
    }
  }
}

TEST(GradientMemory, StaysFromOneMicroBatchToTheNext) {
  Trained trained;
  train_into(trained, with_momentum("single", 1), 2);
  EXPECT_GE(trained.held.most_in_forward, trained.gradient_bytes) << "in the second one's forward pass";
}

TEST(GradientMemory, ChangesNoBit) {
  // Clipping keeps gradients in one permanent piece of memory. With a limit that no norm reaches it changes no value.
  for (const Case& one : kCases) {
    SCOPED_TRACE(::testing::Message() << one.name << " on " << one.devices);
    StrategyOptions options = with_momentum(one.name, one.devices);
    Trained by_runs, whole;
    train_into(by_runs, options);
    options.clip_norm = 1e30;
    train_into(whole, options);
    EXPECT_GE(whole.held.most_in_forward, whole.gradient_bytes);
    ASSERT_EQ(by_runs.state.size(), whole.state.size());
    for (size_t t = 0; t < whole.state.size(); ++t)
      EXPECT_TRUE(by_runs.state[t].values == whole.state[t].values) << whole.state[t].name;
  }
}

}  // namespace gradient_memory_test
}  // namespace dptrain::parallel
