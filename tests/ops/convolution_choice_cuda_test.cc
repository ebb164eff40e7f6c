// How a GPU chooses a way to compute a convolution. Winograd's ways compute the same in one go and in parts.

#include "ops/convolution_choice_cuda.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "base/error.h"
#include "device/cuda_check.h"
#include "device/cuda_device.h"
#include "device/cuda_probe.h"
#include "ops/winograd_convolution_cuda.h"
#include "support/formula_tensor.h"

namespace dptrain::ops::cuda {
namespace convolution_choice_cuda_test {

using namespace std::chrono_literals;
using namespace testing;
using By = ConvolutionChoice::By;

/// A plan that idles for a while on the GPU's stream, or refuses to run.
class IdlePlan final : public ConvolutionPlan {
 public:
  struct Form {
    std::string_view name;
    std::chrono::microseconds time = 0us;
    int64_t workspace_bytes = 0;
    int refused_run = -1;  ///< the number of the first run that is refused; -1: none
    bool lacks_memory = false;
  };
  explicit IdlePlan(const Form& form) : form_(form) {}

  bool run(const ConvolutionOperands& operands) override {
    if (form_.lacks_memory) throw Error(ExitCode::device, "no memory for the workspace");
    if (form_.refused_run >= 0 && runs_++ >= form_.refused_run) return false;
    const Buffer workspace(operands.out.device(), form_.workspace_bytes, MemoryPurpose::workspace);
    cuda_check(cudaLaunchHostFunc(
                   CudaDevice::of(operands.out.device()).stream(),
                   [](void* form) { std::this_thread::sleep_for(static_cast<const Form*>(form)->time); }, &form_),
               "cudaLaunchHostFunc");
    return true;
  }
  std::string refusal() const override { return std::string(form_.name) + " refuses"; }
  int64_t workspace_bytes() const override { return form_.workspace_bytes; }
  std::string_view name() const override { return form_.name; }

 private:
  Form form_;
  int runs_ = 0;
};

class CudaConvolutionChoice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices().empty()) GTEST_SKIP() << "no GPU: " << cuda_absence();
    open();
  }
  /// Opens a device that has no memory for choices yet.
  void open() {
    if (device_ != nullptr) device_->synchronize();
    choice_ = nullptr;
    operands_ = {};
    device_ = open_device({DeviceKind::cuda, 0}, {.threads = 1});
    device_->enter_thread();
    operands_ = {.first = Tensor::zeros(*device_, {1}),
                 .second = Tensor::zeros(*device_, {1}),
                 .out = Tensor::zeros(*device_, {1})};
  }
  void TearDown() override {
    if (device_ != nullptr) device_->synchronize();
  }
  static ConvolutionChoice::Plans plans_of(std::initializer_list<IdlePlan::Form> forms) {
    ConvolutionChoice::Plans plans;
    for (const IdlePlan::Form& form : forms) plans.push_back(std::make_unique<IdlePlan>(form));
    return plans;
  }
  ConvolutionChoice& choice(By by, std::initializer_list<IdlePlan::Form> forms, const std::string& refusal = "",
                            const std::function<ConvolutionChoice::Plans()>& others = {}) {
    device_->synchronize();  // the plans of an earlier choice are about to be deleted
    choice_ = std::make_unique<ConvolutionChoice>(by, plans_of(forms), refusal, others);
    return *choice_;
  }

  /// Whether some choice by time is this plan: on a busy machine a sleep sometimes takes longer.
  bool chooses(std::string_view name, std::initializer_list<IdlePlan::Form> forms) {
    for (int attempt = 0; attempt < 9; ++attempt) {
      ConvolutionChoice& chosen = choice(By::time, forms);
      EXPECT_TRUE(chosen.run(operands_));
      if (chosen.name() == name) return true;
    }
    return false;
  }

  std::unique_ptr<Device> device_;
  ConvolutionOperands operands_;
  std::unique_ptr<ConvolutionChoice> choice_;
};

TEST_F(CudaConvolutionChoice, ByTimeTakesTheFastest) {
  EXPECT_EQ(choice(By::time, {{"any"}}).name(), "") << "chosen before it was run";
  EXPECT_TRUE(chooses("fast", {{"slow", 4ms}, {"fast", 1ms}, {"slower", 5ms}}));
}

TEST_F(CudaConvolutionChoice, ByTimeTakesTheLeastMemoryOfThoseThatAreNearlyAsFast) {
  EXPECT_TRUE(chooses("small", {{"large", 5000us, 300}, {"small", 5100us, 200}, {"slow", 6500us, 100}}));
}

TEST_F(CudaConvolutionChoice, ByTimeTriesNoMoreOnceThatHasTakenLong) {
  ConvolutionChoice& first = choice(By::time, {{"long", 30ms}, {"short", 1ms}});
  EXPECT_TRUE(first.run(operands_));
  EXPECT_EQ(first.name(), "long");
}

TEST_F(CudaConvolutionChoice, InOrderTakesTheFirstThatWorks) {
  ConvolutionChoice& first = choice(By::order, {{.name = "refused", .refused_run = 0}, {"slow", 5ms}, {"fast", 0ms}});
  EXPECT_TRUE(first.run(operands_));
  EXPECT_EQ(first.name(), "slow");
}

TEST_F(CudaConvolutionChoice, WhatHasNoMemoryIsLeftOutUnlessRunsMustBeRepeatable) {
  ConvolutionChoice& by_time = choice(By::time, {{.name = "hungry", .lacks_memory = true}, {"modest"}});
  EXPECT_TRUE(by_time.run(operands_));
  EXPECT_EQ(by_time.name(), "modest");
  ConvolutionChoice& in_order = choice(By::order, {{.name = "hungry", .lacks_memory = true}, {"modest"}});
  EXPECT_THROW(in_order.run(operands_), Error);
}

TEST_F(CudaConvolutionChoice, RecordedWorkKeepsNoWorkspaceThatWasOnlyTried) {
  constexpr int64_t kLarge = int64_t{64} << 20;
  // On a busy machine the large plan may be chosen, and its workspace kept.
  for (int attempt = 0; attempt < 9; ++attempt) {
    open();
    CachingAllocator& allocator = device_->allocator();
    const PoolInUse pool(allocator, MemoryPool::recorded);
    ConvolutionChoice& chosen = choice(By::time, {{"large", 9ms, kLarge}, {"small", 1ms, 512}});
    ASSERT_TRUE(chosen.run(operands_));
    if (chosen.name() != "small") continue;
    const int64_t taken = allocator.source_calls();
    { const Buffer more(*device_, kLarge, MemoryPurpose::activations); }
    EXPECT_EQ(allocator.source_calls(), taken + 1) << "there was none";
    EXPECT_EQ(allocator.use(MemoryPool::recorded), MemoryPool::recorded) << "choosing leaves the pool as it was";
    return;
  }
  FAIL() << "the slow one was chosen each time";
}

TEST_F(CudaConvolutionChoice, SaysWhyNothingWorks) {
  ConvolutionChoice& none = choice(By::time, {}, "not offered");
  EXPECT_FALSE(none.run(operands_));
  EXPECT_EQ(none.refusal(), "not offered");
  ConvolutionChoice& refused =
      choice(By::time, {{.name = "first", .refused_run = 0}, {.name = "second", .refused_run = 0}});
  EXPECT_FALSE(refused.run(operands_));
  EXPECT_EQ(refused.refusal(), "second refuses");
  ConvolutionChoice& later = choice(By::order, {{.name = "once", .refused_run = 2}});
  EXPECT_TRUE(later.run(operands_));
  EXPECT_FALSE(later.run(operands_));
  EXPECT_FALSE(later.run(operands_));
  EXPECT_EQ(later.refusal(), "once refuses");
}

/// A cache holds half of these transformed images. Their parts differ in size, and so do the sums over a part's tiles:
/// eight doesn't divide their number.
const Shape kX = {53, 17, 57, 58}, kWeight = {20, 17, 3, 3}, kY = {53, 20, 57, 58};

ConvolutionProblem problem(ConvolutionPass pass) {
  return {.pass = pass, .x = kX, .weight = kWeight, .y = kY, .padding = 1};
}

TEST_F(CudaConvolutionChoice, WinogradsPartsComputeTheSame) {
  const auto images = [&](const Shape& shape, uint64_t number) {
    return formula_tensor(*device_, shape, {.tensor = number}, Layout::nhwc);
  };
  const Tensor x = images(kX, 1), weight = images(kWeight, 2), dy = images(kY, 3);
  for (const auto& [pass, first, second, shape] :
       {std::tuple(ConvolutionPass::forward, x, weight, kY), std::tuple(ConvolutionPass::data_gradient, dy, weight, kX),
        std::tuple(ConvolutionPass::weight_gradient, x, dy, kWeight)}) {
    SCOPED_TRACE(static_cast<int>(pass));
    const auto plans = winograd_convolutions(problem(pass));
    ASSERT_EQ(plans.size(), 2u);
    EXPECT_LT(plans[1]->workspace_bytes(), plans[0]->workspace_bytes());
    std::vector<std::vector<float>> results;
    for (const auto& plan : plans) {
      const Tensor out = Tensor::empty(*device_, shape, {.layout = Layout::nhwc});
      const int64_t peak = device_->allocator().peak_during(
          [&] { ASSERT_TRUE(plan->run({.first = first, .second = second, .out = out})); })[MemoryPurpose::workspace];
      constexpr int64_t kOfCublas = int64_t{32} << 20;
      EXPECT_LE(peak, plan->workspace_bytes() + kOfCublas);
      results.push_back(values_of(out));
    }
    double distance = 0, norm = 0;
    for (size_t i = 0; i < results[0].size(); ++i) {
      distance += std::pow(double{results[0][i]} - results[1][i], 2);
      norm += std::pow(double{results[0][i]}, 2);
    }
    // Sums of images are the same; the gradient of weights adds its parts in another order.
    if (pass == ConvolutionPass::weight_gradient)
      EXPECT_LE(std::sqrt(distance), 1e-5 * std::sqrt(norm));
    else
      EXPECT_EQ(distance, 0);
  }
}

TEST(CudaWinogradConvolutions, AreOf3x3WindowsOfManyChannelsInF32) {
  const ConvolutionProblem fits = problem(ConvolutionPass::forward);
  EXPECT_TRUE(can_be_winograd(fits));
  const auto changed = [&](const auto& change) {
    ConvolutionProblem other = fits;
    change(other);
    return can_be_winograd(other);
  };
  EXPECT_FALSE(changed([](auto& p) { p.dtype = DType::bf16; }));
  EXPECT_FALSE(changed([](auto& p) { p.stride = 2; }));
  EXPECT_FALSE(changed([](auto& p) { p.weight = {20, 17, 5, 5}; }));
  EXPECT_FALSE(changed([](auto& p) { p.weight = {20, 17, 3, 1}; }));
  EXPECT_FALSE(changed([](auto& p) { p.weight = {8, 17, 3, 3}; }));
  EXPECT_FALSE(changed([](auto& p) { p.weight = {20, 3, 3, 3}; }));
  EXPECT_FALSE(changed([](auto& p) { p.padding = 3; }));
}

TEST_F(CudaConvolutionChoice, OthersAreAskedForOnceWhereNoCandidateRuns) {
  int asked = 0;
  const auto others = [&] {
    ++asked;
    return plans_of({{.name = "refused", .refused_run = 0}, {"slow", 1ms}});
  };
  for (const By by : {By::order, By::time}) {
    ConvolutionChoice& chosen = choice(by, {{.name = "first", .refused_run = 0}}, "", others);
    EXPECT_TRUE(chosen.run(operands_));
    EXPECT_TRUE(chosen.run(operands_));
    EXPECT_EQ(chosen.name(), "slow");
  }
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(choice(By::time, {{"works"}}, "", others).run(operands_));
  EXPECT_EQ(asked, 2);
  ConvolutionChoice& none = choice(By::order, {{.name = "first", .refused_run = 0}}, "",
                                   [] { return plans_of({{.name = "last", .refused_run = 0}}); });
  EXPECT_FALSE(none.run(operands_));
  EXPECT_EQ(none.refusal(), "last refuses");
}

/// If a fused plan refuses while a step is recorded, the recording chooses another one.
TEST_F(CudaConvolutionChoice, WhatIsRecordedIsChosenInOrder) {
  ConvolutionChoice& chosen = choice(By::time, {{.name = "refused", .refused_run = 0}, {"slow", 5ms}, {"fast", 0ms}});
  const auto work = device_->record([&] { EXPECT_TRUE(chosen.run(operands_)); });
  EXPECT_EQ(chosen.name(), "slow");
  work->run();
  device_->synchronize();
}

}  // namespace convolution_choice_cuda_test
}  // namespace dptrain::ops::cuda
