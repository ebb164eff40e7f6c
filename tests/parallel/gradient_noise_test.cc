#include "parallel/gradient_noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "parallel/digits.h"
#include "parallel/gpu_strategies.h"
#include "parallel/played_processes.h"
#include "parallel/step_exchange.h"

namespace dptrain::parallel {
namespace gradient_noise_test {

StepResults result_of(int64_t samples, double own, double summed = 0, double loss_factor = 1) {
  return {.outputs = {},
          .samples = samples,
          .squares = GradientSquares{.own = own, .summed = summed, .loss_factor = loss_factor}};
}

// Gradients 3 and 5 of one sample each: their mean is 4, and their variance 2.
TEST(GradientNoise, OfTwoSamplesIsTheirVariance) {
  const GradientNoise noise = noise_of_step({result_of(1, 1.5 * 1.5, 16), result_of(1, 2.5 * 2.5)});
  EXPECT_DOUBLE_EQ(noise.variance(), 2);
  EXPECT_DOUBLE_EQ(noise.squared_norm(), 16 - 2 / 2.0);
  EXPECT_DOUBLE_EQ(*noise.scale(), 2 / 15.0);
}

TEST(GradientNoise, IsFreeOfTheLossScale) {
  const GradientNoise noise = noise_of_step({result_of(1, 64 * 2.25, 64 * 16, 8), result_of(1, 64 * 6.25, 0, 8)});
  EXPECT_DOUBLE_EQ(noise.variance(), 2);
}

TEST(GradientNoise, LeavesOutRanksWithoutSamples) {
  EXPECT_DOUBLE_EQ(noise_of_step({result_of(1, 2.25, 16), result_of(0, 0), result_of(1, 6.25)}).variance(), 2);
  EXPECT_EQ(noise_of_step({result_of(2, 16, 16), result_of(0, 0)}).samples, 0);
}

TEST(GradientNoise, LeavesOutStepsThatOverflow) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(noise_of_step({result_of(1, kInfinity, 16), result_of(1, 6.25)}).samples, 0);
  EXPECT_EQ(noise_of_step({result_of(1, 2.25, kInfinity), result_of(1, 6.25)}).samples, 0);
}

TEST(GradientNoise, IsUnknownIfNothingWasMeasured) {
  EXPECT_EQ(noise_of_step({{.outputs = {}, .samples = 1}, {.outputs = {}, .samples = 1}}).samples, 0);
  EXPECT_FALSE(GradientNoise().scale());
}

/// Opposite gradients leave no mean.
TEST(GradientNoise, HasNoScaleWithoutAGradient) {
  const GradientNoise noise = noise_of_step({result_of(1, 1), result_of(1, 1)});
  EXPECT_EQ(noise.samples, 2);
  EXPECT_LT(noise.squared_norm(), 0);
  EXPECT_FALSE(noise.scale());
}

/// An estimate's error is the larger, the fewer samples its step has.
TEST(GradientNoise, WeighsStepsByTheirSamples) {
  GradientNoise noise = noise_of_step({result_of(10, 1, 3), result_of(10, 3)});
  const GradientNoise last = noise_of_step({result_of(1, 9, 2), result_of(1, 9)});
  EXPECT_LT(last.squared_norm(), -10) << "of two samples";
  noise += last;
  EXPECT_EQ(noise.samples, 22);
  EXPECT_DOUBLE_EQ(noise.squared_norm(), (20 * (2 * 3 - 8) + 2 * (2 * 2 - 36)) / 22.0);
}

constexpr int64_t kSamples = 12;

class Gradients final : public StepObserver {
 public:
  void on_stage(const nn::Model&, int, const Tensor&, const Tensor&) override {}
  void on_gradients(const nn::Model&, const Tensor& gradients, int64_t begin) override {
    if (begin == 0) of_samples.emplace_back();
    const std::vector<float> values = gradients.values();
    of_samples.back().insert(of_samples.back().end(), values.begin(), values.end());
  }
  std::vector<std::vector<double>> of_samples;
};

/// The gradient of each digit at the initial weights, in the order of the training.
const std::vector<std::vector<double>>& gradients_of_samples() {
  static const auto gradients = [] {
    const StrategyOptions options{.name = "single", .devices = 1};
    StrategyContext context = context_of(options);
    Gradients observed;
    context.replica.observer = &observed;
    train(*make_strategy(options, context), digits(kSamples, 10), kSamples, 1, 0);
    return observed.of_samples;
  }();
  return gradients;
}

/// The samples of each rank, by their places in the order of the training.
using Parts = std::vector<std::vector<size_t>>;

/// One part after the other, of these sizes.
Parts parts_of(const std::vector<size_t>& sizes) {
  Parts parts;
  size_t sample = 0;
  for (const size_t size : sizes) {
    auto& part = parts.emplace_back(size);
    for (size_t& place : part) place = sample++;
  }
  return parts;
}

/// The noise by its definition.
GradientNoise expected_of(const Parts& parts) {
  const auto& gradients = gradients_of_samples();
  const size_t elements = gradients.front().size();
  const auto mean_of = [&](const std::vector<size_t>& samples) {
    std::vector<double> mean(elements);
    for (const size_t sample : samples)
      for (size_t k = 0; k < elements; ++k) mean[k] += gradients[sample][k] / static_cast<double>(samples.size());
    return mean;
  };
  const std::vector<double> of_all = mean_of(parts_of({kSamples}).front());
  double squares = 0, between = 0;
  for (const double value : of_all) squares += value * value;
  for (const auto& part : parts) {
    const std::vector<double> own = mean_of(part);
    for (size_t k = 0; k < elements; ++k)
      between += static_cast<double>(part.size()) * (own[k] - of_all[k]) * (own[k] - of_all[k]);
  }
  const double variance = between / static_cast<double>(parts.size() - 1);
  constexpr double kCount = kSamples;
  return {.variance_sum = kCount * variance, .squared_norm_sum = kCount * squares - variance, .samples = kSamples};
}
GradientNoise expected_of(const std::vector<size_t>& sizes) { return expected_of(parts_of(sizes)); }

void expect_near(const GradientNoise& noise, const GradientNoise& expected, double tolerance = 1e-5) {
  ASSERT_EQ(noise.samples, expected.samples);
  EXPECT_NEAR(noise.variance(), expected.variance(), tolerance * expected.variance());
  EXPECT_NEAR(noise.squared_norm(), expected.squared_norm(), tolerance * expected.variance());
}

StrategyOptions measured(const char* name, int devices) {
  StrategyOptions options{.name = name, .devices = devices, .measures_noise = true};
  options.fsdp = {.unit_mb = 0.01, .measures_noise = true};
  return options;
}

GradientNoise noise_of(const StrategyOptions& options, const StrategyContext& context) {
  return scores_of_training(*make_strategy(options, context), digits(kSamples, 10), 1, kSamples, 0.1,
                            options.micro_batches)
      .front()
      .noise;
}
GradientNoise noise_of(const StrategyOptions& options) { return noise_of(options, context_of(options)); }

TEST(GradientNoise, IsMeasuredByEveryStrategyThatSumsGradients) {
  for (const char* name : {"ddp", "ddp_sharded", "ddp_bf16", "fsdp", "fsdp_kept"}) {
    SCOPED_TRACE(name);
    StrategyOptions options = measured(name, 4);
    const double tolerance = name == std::string("ddp_bf16") ? 1e-3 : 1e-5;
    expect_near(noise_of(options), expected_of({3, 3, 3, 3}), tolerance);
    options.clip_norm = 0.01;
    expect_near(noise_of(options), expected_of({3, 3, 3, 3}), tolerance);
  }
}

TEST(GradientNoise, IsTheVarianceOfSamplesIfEachDeviceHasOne) {
  expect_near(noise_of(measured("ddp", kSamples)), expected_of(std::vector<size_t>(kSamples, 1)));
}

/// Each micro-batch of six samples is cut into two parts.
TEST(GradientNoise, IsMeasuredOncePerStepOfSeveralMicroBatches) {
  for (const char* name : {"ddp", "ddp_sharded", "fsdp"}) {
    SCOPED_TRACE(name);
    StrategyOptions options = measured(name, 2);
    options.micro_batches = 2;
    expect_near(noise_of(options), expected_of(Parts{{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}}));
  }
}

/// Five devices have one sample each of the first three samples or none, then one or none of the last two.
TEST(GradientNoise, IsWholeIfADeviceHasNoneOfTheLastMicroBatch) {
  const auto noise_of_five = [](const char* name) {
    return scores_of_training(*make_strategy(measured(name, 5)), digits(5, 10), 1, 5, 0.1, 2).front().noise;
  };
  const GradientNoise of_ddp = noise_of_five("ddp"), of_fsdp = noise_of_five("fsdp");
  EXPECT_EQ(of_fsdp.samples, 5);
  EXPECT_NEAR(of_fsdp.variance(), of_ddp.variance(), 1e-9 * of_ddp.variance());
  EXPECT_NEAR(of_fsdp.squared_norm(), of_ddp.squared_norm(), 1e-9 * of_ddp.variance());
}

TEST(GradientNoise, TakesUnequalPartsByTheirSamples) {
  for (const char* name : {"ddp", "fsdp"}) {
    SCOPED_TRACE(name);
    const StrategyOptions options = measured(name, 3);
    StrategyContext context = context_of(options);
    context.split = BatchSplit({6, 4, 2});
    expect_near(noise_of(options, context), expected_of({6, 4, 2}));
  }
}

TEST(GradientNoise, IsMeasuredOfShardsToo) {
  for (const char* name : {"ddp", "ddp_sharded"}) {
    SCOPED_TRACE(name);
    const StrategyOptions options = measured(name, 2);
    StrategyContext context = context_of(options);
    context.shards = 6;  // four and two, as in the tree of sums
    expect_near(noise_of(options, context), expected_of({8, 4}));
  }
}

TEST(GradientNoise, OfReplicasCountsEveryGradientOnce) {
  StrategyOptions options = measured("fsdp", 4);
  options.fsdp.replicas = 2;
  expect_near(noise_of(options), expected_of({3, 3, 3, 3}));
}

TEST(GradientNoise, ChangesNoWeight) {
  for (const char* name : {"ddp", "ddp_sharded", "fsdp"}) {
    StrategyOptions options = measured(name, 3);
    const auto with = make_strategy(options);
    train(*with, digits(100, 10), 4, 25, 0.05);
    options.measures_noise = options.fsdp.measures_noise = false;
    const auto without = make_strategy(options);
    train(*without, digits(100, 10), 4, 25, 0.05);
    expect_same_bits(with->state_dict(), without->state_dict());
  }
}

/// The main process reports what one process would.
TEST(GradientNoise, IsThatOfAllProcesses) {
  for (const char* name : {"ddp", "ddp_sharded", "fsdp"}) {
    SCOPED_TRACE(name);
    const StrategyOptions options = measured(name, 4);
    GradientNoise of_job;
    const PlayedProcesses job(options, context_of(options), {1, 3});
    const auto failures = job.run([&](int process, Strategy& strategy) {
      const auto scores = scores_of_training(strategy, digits(kSamples, 10), 1, kSamples, 0.1);
      if (process == 0) of_job = scores.front().noise;
    });
    EXPECT_EQ(failures, std::vector<std::string>(2));
    const GradientNoise alone = noise_of(options);
    EXPECT_EQ(of_job.variance_sum, alone.variance_sum);
    EXPECT_EQ(of_job.squared_norm_sum, alone.squared_norm_sum);
  }
}

class CudaGradientNoise : public CudaStrategies {};

/// Steps of two sizes, operator by operator and as graphs.
TEST_F(CudaGradientNoise, IsThatOfCpuWorkers) {
  for (const Precision precision : {Precision::fp32, Precision::fp16})
    for (const char* name : {"ddp", "ddp_sharded", "fsdp"}) {
      SCOPED_TRACE(::testing::Message() << name << ", precision " << static_cast<int>(precision));
      StrategyOptions options = measured(name, 2);
      const ImageDatasets data = digits(40, 10);
      const auto scores_of = [&data](const StrategyOptions& of) {
        const auto strategy = make_strategy(of);
        std::vector<Score> scores;
        for (int epoch = 0; epoch < 3; ++epoch)
          std::ranges::copy(scores_of_training(*strategy, data, 3, 16, 0.05), std::back_inserter(scores));
        return scores;
      };
      const auto on_cpu = scores_of(options);
      options.list = {kGpu, kGpu};
      options.precision = precision;
      const auto on_gpu = scores_of(options);
      ASSERT_EQ(on_gpu.size(), on_cpu.size());
      const double tolerance = precision == Precision::fp32 ? 1e-3 : 0.05;
      for (size_t step = 0; step < on_cpu.size(); ++step)
        // A step that overflows in fp16 isn't counted.
        if (on_gpu[step].noise.samples > 0 || precision == Precision::fp32)
          expect_near(on_gpu[step].noise, on_cpu[step].noise, tolerance);
      EXPECT_EQ(on_gpu.back().noise.samples, 8);
    }
}

}  // namespace gradient_noise_test
}  // namespace dptrain::parallel
