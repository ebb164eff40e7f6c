// Batches that unlike devices share, and links that are slower than this machine.
#include <fstream>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;

class SharedBatchesTest : public testing::CommandTest {
 protected:
  /// The number of samples that each device trained in a run's last epoch.
  std::vector<int64_t> samples(const std::string& out) const {
    std::vector<int64_t> samples;
    const auto metrics = last_metrics(out);
    for (const auto& device : metrics["devices"]) samples.push_back(device["samples"].get<int64_t>());
    return samples;
  }
};

TEST_F(SharedBatchesTest, ByWeight) {
  train("even");
  EXPECT_EQ(samples("even"), (std::vector<int64_t>{160, 160}));
  train("weighted", {"split=[0.75, 0.25]"});
  EXPECT_EQ(samples("weighted"), (std::vector<int64_t>{240, 80}));
  EXPECT_NEAR(last_metrics("weighted")["train"]["loss"].get<double>(),
              last_metrics("even")["train"]["loss"].get<double>(), 1e-5);
}

TEST_F(SharedBatchesTest, ByMeasuredSpeedWhichAResumedTrainingKeeps) {
  train("run", {"split=auto", "threads=[1, 2]"});
  const auto first = samples("run");
  EXPECT_EQ(first[0] + first[1], 320);
  // The manifest is changed as if the first device had been measured to be nine times as fast.
  const std::string manifest = "run/checkpoints/step-000005/manifest.json";
  auto document = json_of(manifest);
  ASSERT_EQ(document["split"].size(), 2u);
  document["split"] = {90, 10};
  document.erase("sha256");
  std::ofstream(path(manifest)) << document.dump();
  Arguments arguments = training("run", {"split=auto", "threads=[1, 2]", "epochs=2"});
  arguments.emplace_back("--resume");
  const Finished finished = run(arguments);
  ASSERT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(samples("run"), (std::vector<int64_t>{285, 35})) << "57 and 7 of each 64";
}

TEST_F(SharedBatchesTest, ASlowLinkShowsInTheTimeThatNothingHid) {
  // LeNet's gradients are 0.53 MB: about 200 ms at 0.02 Gbit/s.
  train("slow", {"links={gbps: 0.02}"});
  const auto slow = last_metrics("slow")["time"]["exposed_comm_s"].get<double>();
  EXPECT_GE(slow, 5 * 0.15);
  train("fast");
  EXPECT_EQ(last_metrics("slow")["weights_hash"], last_metrics("fast")["weights_hash"]);
  EXPECT_LT(last_metrics("fast")["time"]["exposed_comm_s"].get<double>(), slow / 2);
}

TEST_F(SharedBatchesTest, RefusesWeightsAndLinksOfOtherDevices) {
  expect_refused(training("run", {"split=[1, 1, 1]"}), 78, {"split", "2 weights", "got 3"});
  expect_refused(training("run", {"links={pairs: {'cpu:0-cpu:5': {gbps: 1}}}"}), 78, {"links.pairs", "two devices"});
}

}  // namespace
}  // namespace dptrain
