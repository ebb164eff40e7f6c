#include "train/noise_advice.h"

#include <gtest/gtest.h>

#include "train/metrics.h"

namespace dptrain::train {
namespace noise_advice_test {

TEST(NoiseAdvice, TwiceTheBatchHalvesTheStepsFarBelowTheScaleOnly) {
  EXPECT_NEAR(steps_of_double_batch(1e9, 64), 0.5, 1e-6);
  EXPECT_DOUBLE_EQ(steps_of_double_batch(64, 64), 0.75);
  EXPECT_NEAR(steps_of_double_batch(1e-9, 64), 1, 1e-6);
}

TEST(NoiseAdvice, IsOfTheBatchThatWasMeasured) {
  EpochMetrics metrics;
  metrics.global_batch = 4096;
  EXPECT_FALSE(noise_advice(metrics));
  metrics.train.score.noise = {.variance_sum = 8192, .squared_norm_sum = 2, .samples = 3};
  EXPECT_EQ(
      noise_advice(metrics),
      "the gradient noise scale was 4,096 samples, by batches of 4,096: twice the batch would need 0.75 times the "
      "steps");
  metrics.train.score.noise.variance_sum = 0.5;
  EXPECT_EQ(noise_advice(metrics),
            "the gradient noise scale was 0.2 samples, by batches of 4,096: twice the batch would need 1.00 times the "
            "steps");
  metrics.train.score.noise.squared_norm_sum = -1;
  EXPECT_EQ(noise_advice(metrics),
            "the gradient noise scale was more than batches of 4,096 can show, as noise hid their gradient");
}

}  // namespace noise_advice_test
}  // namespace dptrain::train
