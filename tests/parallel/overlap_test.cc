// How much of the reduction of ResNet-18's gradients hides behind the backward pass, over links on which it takes half
// as long; and how much ddp itself hides. The backward pass is simulated by sleeping, so that the machine's speed
// doesn't matter.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "models/model_registry.h"
#include "parallel/gradient_buckets.h"
#include "parallel/rank_team.h"
#include "parallel/sleeping_net.h"

namespace dptrain::parallel {
namespace overlap_test {

constexpr int kRanks = 2;
constexpr double kBackward_s = 3;
constexpr double kReduction_s = kBackward_s / 2;

class Overlap : public ::testing::Test {
 protected:
  Overlap() {
    RankTeam::Options options{.devices = {}, .threads = std::vector<int>(kRanks, 1), .timeout_s = 60};
    for (int rank = 0; rank < kRanks; ++rank) options.devices.push_back({DeviceKind::cpu, rank});
    // A ring of two ranks sends every rank's bytes once.
    options.links = LinkSpec{.all = {.bytes_per_s = kGradientBytes / kReduction_s}, .pairs = {}};
    team_ = std::make_unique<RankTeam>(options);
    for (int rank = 0; rank < kRanks; ++rank) {
      models_.push_back(
          models::find_model("resnet18").build({.device = team_->device(rank)}, {.image = {1, 28, 28}, .classes = 10}));
      models_.back()->place(team_->device(rank), {});
    }
  }

  /// Seconds that a rank waits for sums after the backward pass; the most over all ranks.
  double exposed_seconds(const BucketOptions& options) {
    std::vector<double> exposed(kRanks);
    team_->run("step 1", [&](int rank) {
      nn::Model& model = *models_[static_cast<size_t>(rank)];
      GradientBuckets buckets(model, team_->communicator(rank), options);
      buckets.begin_step();
      // Convolutions take most of the time, and each takes about as long as another.
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

/// Seconds per step that a rank of ddp spends on communication; the most over all ranks. All links together take
/// kReduction_s for the gradients, which are at least `least_bytes`. The backward pass sleeps for kBackward_s, equally
/// long in every layer.
double exposed_by_ddp(const std::vector<int64_t>& widths, const BucketOptions& buckets, double least_bytes = 0) {
  std::vector<SleepingLayer> layers;
  for (const int64_t outputs : widths)
    layers.push_back({.outputs = outputs, .sleeps = {.backward_s = kBackward_s / static_cast<double>(widths.size())}});
  const StrategyOptions options{.net = sleeping_net(layers), .devices = kRanks, .buckets = buckets};
  double bytes = 0;
  for (const auto& tensor : make_strategy(options)->state_dict())
    bytes += static_cast<double>(sizeof(float) * tensor.values.size());
  EXPECT_GE(bytes, least_bytes);
  StrategyContext context = context_of(options);
  context.team.links = LinkSpec{.all = {.bytes_per_s = bytes / kReduction_s}, .pairs = {}};
  const auto strategy = make_strategy(options, context);
  for (int rank = 0; rank < kRanks; ++rank) strategy->take_costs(rank);
  train(*strategy, digits(8, 1), 1, 8, 0.1);
  double exposed = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const PhaseTimes times = strategy->take_costs(rank).times;
    EXPECT_GE(times[Phase::compute], kBackward_s);
    exposed = std::max(exposed, times[Phase::communication]);
  }
  return exposed;
}

/// Square layers with 0.25 MiB of weights, so that each is a bucket.
std::vector<int64_t> square_layers() {
  std::vector<int64_t> widths(16, 256);
  widths.back() = 10;
  return widths;
}

/// The last layers complete a tenth of the bytes; the other tenth is slack for a busy machine.
TEST(OverlapOfDdp, HidesFourFifthsOfWhatItsTimesCallCommunication) {
  EXPECT_LE(exposed_by_ddp(square_layers(), {.bucket_mb = 0.27, .first_bucket_mb = 0.27}), 0.2 * kReduction_s);
}

TEST(OverlapOfDdp, WithoutItAllIsCommunication) {
  EXPECT_GE(exposed_by_ddp(square_layers(), {.bucket_mb = 0.27, .first_bucket_mb = 0.27, .overlap = false}),
            0.98 * kReduction_s);
}

/// Bucket sizes follow ddp's own rule, for layers with the sizes of ResNet-18's weights, in their order.
TEST(OverlapOfDdp, HidesFourFifthsOfResNet18ByBucketsOfItsOwn) {
  // From 16 inputs on, each layer has as many outputs as give it the number of weights of a convolution.
  const std::vector<int64_t> widths = {2304,  16,  2304, 16,               // layer1: 4 of 64 * 64 * 9
                                       4608,  32,  256,  576,  256,        // layer2: the third is the shortcut's
                                       1152,  512, 64,   9216, 64,         // layer3
                                       18432, 128, 1024, 2304, 1024, 10};  // layer4, and the classes
  constexpr double kBytesOfResNet18 = 44.7e6;
  EXPECT_LE(exposed_by_ddp(widths, {}, 0.99 * kBytesOfResNet18), 0.2 * kReduction_s);
}

}  // namespace overlap_test
}  // namespace dptrain::parallel
