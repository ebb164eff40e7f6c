// The effects of strategy options, through the program, as metrics.jsonl reports them.
#include <algorithm>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using nlohmann::json;

class StrategyOptionsTest : public testing::CommandTest {
 protected:
  /// The last line of the metrics of digits.yaml under this strategy.
  json under(const std::string& strategy) const {
    train("run", {"strategy=" + strategy});
    json metrics = last_metrics("run");
    std::filesystem::remove_all(path("run"));
    return metrics;
  }
};

int64_t sent(const json& metrics) { return metrics["comm"]["bytes"]; }
int64_t collectives(const json& metrics) { return metrics["comm"]["collectives"]; }
int64_t optimizer_bytes(const json& metrics) { return metrics["devices"][1]["memory"]["optimizer"]; }

TEST_F(StrategyOptionsTest, CriterionParallelGathersScalarsAlone) {
  const json gathered = under("{name: data_parallel, criterion: gathered}");
  const json parallel = under("{name: data_parallel, criterion: parallel}");
  // Logits of the second device's 32 samples and their gradients, ten f32 values each, over five steps.
  EXPECT_GE(sent(gathered) - sent(parallel), 5 * 2 * 32 * 10 * 4 * 9 / 10);
}

TEST_F(StrategyOptionsTest, BucketsAreAsLargeAsAskedFor) {
  const auto calls = [&](const std::string& options) { return collectives(under("{name: ddp, " + options + "}")); };
  const int64_t one = calls("bucket_mb: 25, first_bucket_mb: 25");
  const int64_t two = calls("bucket_mb: 25, first_bucket_mb: 0.01");
  const int64_t many = calls("bucket_mb: 0.01, first_bucket_mb: 0.01");
  EXPECT_EQ(two, one + 5) << "one more in each of five steps";
  EXPECT_GE(many, two + 5);
}

TEST_F(StrategyOptionsTest, ShardOptimizerHalvesTheOptimizersMemory) {
  const json whole = under("{name: ddp, shard_optimizer: false}"),
             sharded = under("{name: ddp, shard_optimizer: true}");
  EXPECT_GT(optimizer_bytes(whole), 0);
  EXPECT_NEAR(static_cast<double>(optimizer_bytes(sharded)), 0.5 * static_cast<double>(optimizer_bytes(whole)),
              0.05 * static_cast<double>(optimizer_bytes(whole)));
  EXPECT_EQ(sharded["weights_hash"], whole["weights_hash"]);
}

/// LeNet has three stages, and the backward pass gathers the first again.
TEST_F(StrategyOptionsTest, FsdpHasAPartOfEverythingAndGathersWhatItIsAt) {
  const json ddp = under("ddp"), kept = under("{name: fsdp, reshard_after_forward: false}"),
             by_stages = under("{name: fsdp, unit_mb: 0.001}"), at_once = under("{name: fsdp, unit_mb: 1}");
  for (const json* one : {&kept, &by_stages, &at_once}) EXPECT_EQ((*one)["weights_hash"], ddp["weights_hash"]);
  EXPECT_NEAR(static_cast<double>(optimizer_bytes(by_stages)), 0.5 * static_cast<double>(optimizer_bytes(ddp)),
              0.05 * static_cast<double>(optimizer_bytes(ddp)));
  const auto padding = 0.001 * static_cast<double>(sent(ddp));
  EXPECT_NEAR(sent(kept), sent(ddp), padding);
  EXPECT_NEAR(sent(at_once), sent(ddp), padding) << "one unit is never left";
  EXPECT_GT(sent(by_stages), sent(kept) + 5 * 4 * 500) << "conv1's 520 weights, in five steps";
  EXPECT_GT(collectives(by_stages), collectives(kept));
  EXPECT_GT(collectives(kept), collectives(at_once));
}

TEST_F(StrategyOptionsTest, PlacementIsByBytesOrByTurns) {
  const auto largest_share = [&](const std::string& placement) {
    const json bytes = under("{name: kvstore, type: device, placement: " + placement + "}")["kvstore"]["bytes"];
    const std::vector<double> held = bytes;
    return std::ranges::max(held) / (held[0] + held[1]);
  };
  EXPECT_LT(largest_share("balanced"), 0.85);
  EXPECT_GT(largest_share("round_robin"), largest_share("balanced"));
}

TEST_F(StrategyOptionsTest, CompressionsGoByTheirNumbers) {
  const json plain = under("ddp");
  const json rank1 = under("{name: ddp, compress: {name: powersgd, rank: 1}}");
  const json rank4 = under("{name: ddp, compress: {name: powersgd, rank: 4}}");
  EXPECT_LT(sent(rank1), sent(rank4));
  EXPECT_LT(sent(rank4), sent(plain));
  const json fine = under("{name: ddp, compress: {name: two_bit, threshold: 0.01}}");
  const json coarse = under("{name: ddp, compress: {name: two_bit, threshold: 0.5}}");
  EXPECT_EQ(sent(fine), sent(coarse));
  EXPECT_NE(fine["weights_hash"], coarse["weights_hash"]);
}

}  // namespace
}  // namespace dptrain
