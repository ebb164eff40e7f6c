// A net with a branch that only every second step uses: what the loss doesn't depend on has a gradient of zero, under
// every strategy; ddp asks for it to be said.
#include <gtest/gtest.h>

#include <memory>

#include "autograd/elementwise.h"
#include "autograd/flatten.h"
#include "parallel/digits.h"
#include "support/expect_error.h"

namespace dptrain::parallel {
namespace {

constexpr int64_t kSteps = 6, kBatch = 20;

/// fc(x), and in every second forward pass of its replica `branch(x)` beside it.
class HalfUsed final : public nn::Module {
 public:
  HalfUsed(int64_t features, int64_t classes, int64_t passes_a_step)
      : fc_(add_child<nn::Linear>("fc", features, classes)),
        branch_(add_child<nn::Linear>("branch", features, classes)),
        passes_a_step_(passes_a_step) {}

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    const bool with_branch = context.training && passes_++ / passes_a_step_ % 2 == 0;
    const Variable flat = autograd::flatten(x), y = fc_.forward(flat, context);
    return with_branch ? autograd::add(y, branch_.forward(flat, context)) : y;
  }

 private:
  nn::Linear& fc_;
  nn::Linear& branch_;
  int64_t passes_a_step_;
  int64_t passes_ = 0;
};

std::unique_ptr<Strategy> half_used(const StrategyOptions& options) {
  StrategyContext context = context_of(options);
  context.replica.model = {
      .name = "half_used",
      .build = [passes = options.micro_batches](const nn::LayerOptions&, const models::ModelInput& input) {
        auto model = std::make_unique<nn::Model>();
        model->add_stage(std::make_unique<HalfUsed>(input.image.elements(), input.classes, passes));
        return model;
      }};
  return make_strategy(options, context);
}

std::vector<nn::NamedValues> trained(const StrategyOptions& options) {
  const auto strategy = half_used(options);
  train(*strategy, digits(kSteps * kBatch, 10), kSteps, kBatch, 0.1, options.micro_batches);
  return strategy->state_dict();
}

const optim::SgdSettings kMomentum = {.momentum = 0.9, .weight_decay = 0.01};

TEST(UnusedParameters, HaveGradientsOfZeroUnderEveryStrategy) {
  for (const int64_t micro_batches : {1, 3}) {
    const auto one = trained({.name = "single", .devices = 1, .sgd = kMomentum, .micro_batches = micro_batches});
    for (const char* name : {"data_parallel", "parallel_criterion", "ddp", "ddp_sharded", "kvstore", "kvstore_local"})
      for (const int devices : {1, 2, 3, 4}) {
        SCOPED_TRACE(fmt::format("{} on {} devices, {} micro-batches", name, devices, micro_batches));
        const auto several = trained(
            {.name = name, .devices = devices, .find_unused = true, .sgd = kMomentum, .micro_batches = micro_batches});
        ASSERT_EQ(several.size(), one.size());
        for (size_t t = 0; t < one.size(); ++t)
          for (size_t i = 0; i < one[t].values.size(); ++i)
            ASSERT_NEAR(several[t].values[i], one[t].values[i], 1e-6) << one[t].name << "[" << i << "]";
      }
  }
}

TEST(UnusedParameters, MoveByMomentumAndWeightDecayAlone) {
  // Step 1 uses the branch, step 2 doesn't: its velocity goes on.
  const auto strategy = half_used({.devices = 2, .find_unused = true, .sgd = {.momentum = 0.5}});
  const Datasets data = digits(kBatch, 10);
  const auto before = strategy->state_dict();
  train(*strategy, data, 1, kBatch, 0.1);
  const auto between = strategy->state_dict();
  train(*strategy, data, 1, kBatch, 0.1);
  const auto after = strategy->state_dict();
  const auto branch = [](const std::vector<nn::NamedValues>& state) -> const std::vector<float>& {
    for (const auto& tensor : state)
      if (tensor.name == "branch.bias") return tensor.values;
    throw std::logic_error("no branch.bias");
  };
  for (size_t i = 0; i < 10; ++i) {
    const float first = branch(between)[i] - branch(before)[i];
    EXPECT_NE(first, 0);
    EXPECT_NEAR(branch(after)[i] - branch(between)[i], 0.5f * first, 1e-6);
  }
}

TEST(UnusedParameters, EndATrainingUnderDdpUnlessAskedFor) {
  for (const bool overlap : {true, false})
    for (const int devices : {1, 3}) {
      const auto strategy = half_used({.devices = devices, .buckets = {.overlap = overlap}});
      const Datasets data = digits(2 * kBatch, 10);
      train(*strategy, data, 1, kBatch, 0.1);
      testing::expect_error(ExitCode::config, {"step 1: parameter branch.weight got no gradient", "find_unused: true"},
                            [&] { train(*strategy, data, 1, kBatch, 0.1); });
    }
}

}  // namespace
}  // namespace dptrain::parallel
