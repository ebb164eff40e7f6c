// How much of the reduction of ResNet-18's gradients hides behind backward, over links on which it takes half as long.
// Backward is stood for by sleeping, so that the machine's speed plays no part.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "models/model_registry.h"
#include "parallel/gradient_buckets.h"
#include "parallel/rank_team.h"

namespace dptrain::parallel {
namespace {

constexpr int kRanks = 2;
constexpr double kBackward_s = 3;
constexpr double kReduction_s = kBackward_s / 2;

class Overlap : public ::testing::Test {
 protected:
  Overlap() {
    RankTeam::Options options{.devices = {}, .threads = std::vector<int>(kRanks, 1), .timeout_s = 60};
    for (int rank = 0; rank < kRanks; ++rank) options.devices.push_back({DeviceKind::cpu, rank});
    // A ring of two sends every rank's bytes once.
    options.links = LinkSpec{.all = {.bytes_per_s = kGradientBytes / kReduction_s}, .pairs = {}};
    team_ = std::make_unique<RankTeam>(options);
    for (int rank = 0; rank < kRanks; ++rank) {
      models_.push_back(
          models::find_model("resnet18").build({.device = team_->device(rank)}, {.image = {1, 28, 28}, .classes = 10}));
      models_.back()->place(team_->device(rank), {});
    }
  }

  /// Seconds that a rank waits for sums once backward is over, the most over all ranks.
  double exposed_seconds(const BucketOptions& options) {
    std::vector<double> exposed(kRanks);
    team_->run("step 1", [&](int rank) {
      nn::Model& model = *models_[static_cast<size_t>(rank)];
      GradientBuckets buckets(model, team_->communicator(rank), options);
      buckets.begin_step();
      // Convolutions take most of the time, each about as long as another.
      const auto is_weight = [](const Parameter* parameter) { return parameter->value().shape().rank() > 1; };
      const auto layers = std::ranges::count_if(model.parameters(), is_weight);
      const auto begun = Clock::now();
      int64_t layer = 0;
      for (size_t p = model.parameters().size(); p-- > 0;) {
        const Parameter* parameter = model.parameters()[p];
        if (is_weight(parameter)) {
          const std::chrono::duration<double> at(kBackward_s * static_cast<double>(++layer) /
                                                 static_cast<double>(layers));
          std::this_thread::sleep_until(begun + std::chrono::duration_cast<Clock::duration>(at));
        }
        buckets.gradient_ready(*parameter);
      }
      const auto ended = Clock::now();
      buckets.finish();
      exposed[static_cast<size_t>(rank)] = seconds_since(ended);
    });
    return *std::ranges::max_element(exposed);
  }

  static constexpr double kGradientBytes = 44.7e6;
  std::unique_ptr<RankTeam> team_;
  std::vector<std::unique_ptr<nn::Model>> models_;
};

TEST_F(Overlap, HidesFourFifthsOfAReductionThatTakesHalfOfBackward) {
  ASSERT_NEAR(4.0 * static_cast<double>(models_[0]->gradients().elements()), kGradientBytes, 0.01 * kGradientBytes);
  EXPECT_LE(exposed_seconds({.bucket_mb = 0, .overlap = true}), 0.2 * kReduction_s);
}

TEST_F(Overlap, WithoutItAllIsExposed) {
  EXPECT_GE(exposed_seconds({.bucket_mb = 0, .overlap = false}), 0.98 * kReduction_s);
}

}  // namespace
}  // namespace dptrain::parallel
