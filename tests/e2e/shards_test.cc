// `shards` through the program: one result on any devices that divide the shards, interrupted or not.
#include <fmt/format.h>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

class ShardsTest : public testing::CommandTest {
 protected:
  static inline const std::vector<std::string> kDevices = {"cpu:0", "cpu:0-1", "cpu:0-3", "cpu:0-7"};

  /// Ten steps in two epochs; single on one device, ddp on more.
  static testing::Arguments sharded(const std::string& devices, int steps = 10, int shards = 8) {
    return {"dataset.limit=80", "dataset.test_limit=20",        "batch_size=16",      "strategy=",
            "epochs=",          fmt::format("steps={}", steps), "devices=" + devices, fmt::format("shards={}", shards)};
  }
};

TEST_F(ShardsTest, SixEndInTheSameBitsOnAnyDevicesThatDivideThem) {
  std::string expected;
  for (const std::string devices : {"cpu:0", "cpu:0-1", "cpu:0-2", "cpu:0-5"}) {
    SCOPED_TRACE(devices);
    train(devices, sharded(devices, 5, 6));
    if (expected.empty()) expected = hash(devices);
    EXPECT_EQ(hash(devices), expected);
    EXPECT_EQ(last_metrics(devices)["train"]["samples"], 80);
  }
  // Of six shards, only parts of four and two are whole subtrees.
  const auto metrics = last_metrics("cpu:0-1");
  EXPECT_GT(metrics["devices"][0]["samples"], metrics["devices"][1]["samples"]);
}

TEST_F(ShardsTest, AnyDevicesEndInTheSameBitsInOneGoOrContinuedOnOthers) {
  std::string expected;
  for (size_t i = 0; i < kDevices.size(); ++i) {
    const std::string& devices = kDevices[i];
    const std::string& others = kDevices[(i + 1) % kDevices.size()];
    SCOPED_TRACE(devices);
    train("whole" + devices, sharded(devices));
    if (expected.empty()) expected = hash("whole" + devices);
    EXPECT_EQ(hash("whole" + devices), expected);

    SCOPED_TRACE("continued on " + others);
    const std::string halved = "halved" + devices;
    train(halved, sharded(devices, 3));
    EXPECT_NE(hash(halved), expected);
    testing::Arguments arguments = training(halved, sharded(others));
    arguments.emplace_back("--resume");
    const testing::Finished finished = run(arguments);
    ASSERT_EQ(finished.exit, 0) << finished.err;
    EXPECT_NE(finished.out.find("resumed after step 3"), std::string::npos) << finished.out;
    EXPECT_EQ(hash(halved), expected);
  }
}

}  // namespace
}  // namespace dptrain
