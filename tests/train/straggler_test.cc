#include "train/straggler.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/json_schema.h"
#include "train/metrics.h"

namespace dptrain::train {
namespace {

using nlohmann::json;

constexpr double kSeconds = 10;
constexpr int64_t kSteps = 100;

TEST(Straggler, ComputesClearlyLongerThanTheMedianOfTheOthers) {
  const auto found = find_straggler({2, 8, 2, 3}, kSeconds, kSteps);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->slower, 4) << "8 s over the median of 2, 2 and 3";
  EXPECT_EQ(found->waited_s, 6);
  EXPECT_EQ(find_straggler({4, 6}, kSeconds, kSteps)->rank, 1) << "1.5 times as long as the only other one";
  EXPECT_EQ(find_straggler({2, 2, 2, 6, 7}, kSeconds, kSteps)->rank, 4) << "of a slow host's two the slower one";
}

TEST(Straggler, IsNoneWhereNoRankClearlyIs) {
  EXPECT_FALSE(find_straggler({}, kSeconds, kSteps));
  EXPECT_FALSE(find_straggler({9}, kSeconds, kSteps)) << "nobody waits";
  EXPECT_FALSE(find_straggler({4, 5.9}, kSeconds, kSteps)) << "not 1.5 times as long";
  EXPECT_FALSE(find_straggler({1, 1.9}, kSeconds, kSteps)) << "not a tenth of the epoch";
  EXPECT_FALSE(find_straggler({1, 9}, kSeconds, 9)) << "too few steps to tell";
  EXPECT_TRUE(find_straggler({1, 9}, kSeconds, 10));
  EXPECT_FALSE(find_straggler({8, 2, 8, 8}, kSeconds, kSteps)) << "one is fast, none is slow";
}

TEST(Straggler, DevicesWithoutSamplesWaitForNobody) {
  EXPECT_FALSE(find_straggler({9, 0}, kSeconds, kSteps));
  EXPECT_EQ(find_straggler({9, 0, 3}, kSeconds, kSteps)->slower, 3);
}

TEST(Straggler, OfAPipelineIsComparedWithTheSameStagesOfOtherReplicas) {
  EXPECT_FALSE(find_straggler({1, 8}, kSeconds, kSteps, /*pipeline_devices=*/2)) << "stages may compute unlike much";
  EXPECT_FALSE(find_straggler({1, 8, 1, 8}, kSeconds, kSteps, 2));
  EXPECT_EQ(find_straggler({1, 4, 1, 8}, kSeconds, kSteps, 2)->rank, 3);
}

EpochMetrics metrics_of(const std::vector<double>& compute_s, const std::vector<int64_t>& samples) {
  EpochMetrics metrics;
  metrics.epoch = metrics.step = 1;
  metrics.strategy = "ddp";
  metrics.global_batch = 10;
  metrics.train.seconds = kSeconds;
  metrics.weights_hash = std::string(64, 'a');
  std::vector<parallel::RankCosts> costs(compute_s.size());
  std::vector<RankPlace> places;
  for (size_t rank = 0; rank < costs.size(); ++rank) {
    costs[rank].times[parallel::Phase::compute] = compute_s[rank];
    costs[rank].samples = samples[rank];
    places.push_back({.device = "cpu:0", .host = rank == 0 ? "a" : "b"});
  }
  add_costs(metrics, costs, places, 0);
  return metrics;
}

TEST(Straggler, StandsInTheMetricsWithItsDeviceAndHost) {
  const EpochMetrics metrics = metrics_of({2, 8}, {500, 500});
  const json line = json::parse(metrics.json());
  EXPECT_EQ(line["straggler"],
            json({{"rank", 1}, {"device", "cpu:0"}, {"host", "b"}, {"slower", 4.0}, {"waited_s", 6.0}}));
  EXPECT_EQ(testing::schema_violations("metrics.schema.json", line), std::vector<std::string>());
  EXPECT_EQ(straggler_advice(metrics, /*may_split=*/false),
            "rank 1 (cpu:0 on b) computed 4.0 times as long as the others, which waited for it for 6.00 of the last "
            "epoch's 10.00 s; see what else runs there");
  EXPECT_TRUE(straggler_advice(metrics, true)->ends_with(", or share batches out by speed with split: auto"));
}

TEST(Straggler, IsNullInTheMetricsWhereThereIsNone) {
  EXPECT_EQ(json::parse(metrics_of({2, 2}, {500, 500}).json())["straggler"], nullptr);
  EXPECT_EQ(json::parse(metrics_of({2, 8}, {40, 50}).json())["straggler"], nullptr) << "these are nine steps";
  EXPECT_EQ(json::parse(metrics_of({8, 1e-6}, {1000, 0}).json())["straggler"], nullptr) << "it has no samples";
  EXPECT_FALSE(straggler_advice(metrics_of({2, 2}, {500, 500}), true));
}

}  // namespace
}  // namespace dptrain::train
