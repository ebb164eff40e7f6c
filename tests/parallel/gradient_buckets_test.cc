#include "parallel/gradient_buckets.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/model_registry.h"
#include "nn/layers.h"
#include "support/test_device.h"

namespace dptrain::parallel {
namespace gradient_buckets_test {

constexpr double kBytesPerMb = 1024.0 * 1024.0;

/// Models: LeNet, ResNet-18, a single parameter, and a parameter that is larger than any bucket between small ones.
class GradientBucketsTest : public ::testing::TestWithParam<const char*> {
 protected:
  GradientBucketsTest() {
    const std::string name = GetParam();
    if (name == "lenet" || name == "resnet18") {
      model_ = models::find_model(name).build({.device = *device_}, {.image = {1, 28, 28}, .classes = 10});
    } else {
      model_ = std::make_unique<nn::Model>();
      if (name == "huge") {
        model_->add_stage(std::make_unique<nn::Linear>(10, 2600), "a.");
        model_->add_stage(std::make_unique<nn::Linear>(2600, 2600), "b.");
        model_->add_stage(std::make_unique<nn::Linear>(2600, 10), "c.");
      } else {
        model_->add_stage(std::make_unique<nn::BatchNorm>(3), "a.");
      }
    }
    model_->place(*device_, {});
  }

  static int64_t bytes(const Bucket& bucket) { return 4 * (bucket.end - bucket.begin); }
  static bool has_one(const Bucket& bucket) { return bucket.end_parameter - bucket.first_parameter == 1; }
  int64_t all_bytes() const { return 4 * model_->gradients().elements(); }

  /// Expects every parameter in exactly one bucket, from the last parameter to the first, with adjacent elements.
  void expect_partition(const std::vector<Bucket>& buckets) const {
    ASSERT_FALSE(buckets.empty());
    int parameter = static_cast<int>(model_->parameters().size());
    int64_t element = model_->gradients().elements();
    for (const Bucket& bucket : buckets) {
      EXPECT_EQ(bucket.end_parameter, parameter);
      EXPECT_LT(bucket.first_parameter, bucket.end_parameter) << "an empty bucket";
      EXPECT_EQ(bucket.end, element);
      EXPECT_EQ(bucket.begin, model_->offset(*model_->parameters()[static_cast<size_t>(bucket.first_parameter)]));
      parameter = bucket.first_parameter;
      element = bucket.begin;
    }
    EXPECT_EQ(parameter, 0);
    EXPECT_EQ(element, 0);
  }

  std::unique_ptr<Device> device_ = testing::test_device();
  std::unique_ptr<nn::Model> model_;
};

TEST_P(GradientBucketsTest, EveryPlanIsAPartitionWithinItsCaps) {
  for (const double mb : {1e-9, 0.001, 0.1, 1.0, 5.0, 25.0, 1e6})
    for (const double first_mb : {1e-9, 0.05, 1.0, 1e6}) {
      SCOPED_TRACE(::testing::Message() << mb << " MiB, first " << first_mb);
      const auto buckets = plan_buckets(*model_, {.bucket_mb = mb, .first_bucket_mb = first_mb});
      expect_partition(buckets);
      for (size_t b = 0; b < buckets.size(); ++b) {
        const double cap = b == 0 ? std::min(mb, first_mb) : mb;
        EXPECT_TRUE(has_one(buckets[b]) || static_cast<double>(bytes(buckets[b])) <= cap * kBytesPerMb)
            << "bucket " << b;
      }
    }
}

TEST_P(GradientBucketsTest, BucketsAreNoSmallerThanTheyNeedToBe) {
  const auto buckets = plan_buckets(*model_, {.bucket_mb = 1, .first_bucket_mb = 1});
  for (size_t b = 0; b + 1 < buckets.size(); ++b) {
    const Bucket& next = buckets[b + 1];
    const int64_t neighbour = model_->offset(*model_->parameters()[static_cast<size_t>(next.end_parameter - 1)]);
    EXPECT_GT(static_cast<double>(4 * (buckets[b].end - neighbour)), kBytesPerMb) << "bucket " << b << " had room";
  }
  EXPECT_EQ(plan_buckets(*model_, {.bucket_mb = 1e6, .first_bucket_mb = 1e6}).size(), 1u);
}

TEST_P(GradientBucketsTest, TheAutomaticRuleKeepsTheLastBucketSmall) {
  for (const double first_mb : {0.05, 1.0, 1e6}) {
    const auto buckets = plan_buckets(*model_, {.first_bucket_mb = first_mb});
    expect_partition(buckets);
    EXPECT_TRUE(has_one(buckets.back()) || 10 * bytes(buckets.back()) <= all_bytes()) << bytes(buckets.back());
    for (const Bucket& bucket : buckets)
      EXPECT_TRUE(has_one(bucket) || static_cast<double>(bytes(bucket)) <= 25 * kBytesPerMb) << bytes(bucket);
    EXPECT_TRUE(has_one(buckets[0]) || static_cast<double>(bytes(buckets[0])) <= first_mb * kBytesPerMb);
  }
}

/// A bucket has a sixteenth of all bytes, at least 64 KiB and at most 25 MiB, as far as whole parameters allow.
TEST_P(GradientBucketsTest, TheAutomaticRuleOfDeferredUpdatesIsFiner) {
  const auto buckets = plan_buckets(*model_, {.defer_updates = true});
  expect_partition(buckets);
  const int64_t limit = std::clamp<int64_t>(all_bytes() / 16, 64 << 10, 25 << 20);
  for (size_t b = 0; b < buckets.size(); ++b) {
    const int64_t cap = b == 0 ? std::min<int64_t>(limit, 1 << 20) : limit;
    EXPECT_TRUE(has_one(buckets[b]) || bytes(buckets[b]) <= cap) << "bucket " << b << ": " << bytes(buckets[b]);
    if (b + 2 >= buckets.size()) continue;  // the last bucket is a tenth at most, and the one before takes the rest
    const Bucket& next = buckets[b + 1];
    const int64_t neighbour = model_->offset(*model_->parameters()[static_cast<size_t>(next.end_parameter - 1)]);
    EXPECT_GT(4 * (buckets[b].end - neighbour), cap) << "bucket " << b << " had room";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GradientBucketsTest, ::testing::Values("lenet", "resnet18", "huge", "batch_norm"),
                         [](const auto& one) { return std::string(one.param); });

TEST(GradientBuckets, OfDeferredUpdatesAreNoLargerThan25MiB) {
  // 130 layers of 4 MiB have 520 MiB; a sixteenth of that would be more than the largest bucket.
  const auto device = open_device({DeviceKind::cpu, 0}, {.counts_only = true});
  nn::Model model;
  for (int layer = 0; layer < 130; ++layer)
    model.add_stage(std::make_unique<nn::Linear>(1024, 1024), "layer" + std::to_string(layer) + ".");
  model.place(*device, {});
  const auto buckets = plan_buckets(model, {.defer_updates = true});
  for (size_t b = 1; b + 2 < buckets.size(); ++b)
    EXPECT_EQ(buckets[b].end - buckets[b].begin, 6 * (1024 * 1024 + 1024)) << "of 4,100 KiB each, bucket " << b;
}

TEST(GradientBuckets, ResNetReducesMostOfItsGradientsBeforeBackwardEnds) {
  const auto device = testing::test_device();
  const auto model = models::find_model("resnet18").build({.device = *device}, {.image = {1, 28, 28}, .classes = 10});
  model->place(*device, {});
  const auto buckets = plan_buckets(*model, {});
  EXPECT_GE(buckets.size(), 3u);
  // Nothing hides the last bucket.
  EXPECT_LE(10 * (buckets.back().end - buckets.back().begin), model->gradients().elements());
}

}  // namespace gradient_buckets_test
}  // namespace dptrain::parallel
