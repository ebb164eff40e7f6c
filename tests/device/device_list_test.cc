// How a device list is read, and the message if its devices don't exist.

#include "device/device_list.h"

#include <gtest/gtest.h>

#include "device/cuda_probe.h"
#include "support/expect_error.h"

namespace dptrain {
namespace {

/// Reads a list and requires its devices to exist.
void require(std::string_view text, std::string_view where = "--devices", int local = 0) {
  require_devices(parse_device_list(text, where, local), where);
}

std::string parsed(std::string_view text) { return device_names(parse_device_list(text, "--devices")); }

TEST(DeviceList, TakesCommasRangesAndSpaces) {
  EXPECT_EQ(parsed("cpu:0"), "cpu:0");
  EXPECT_EQ(parsed("cpu:0,cpu:1"), "cpu:0, cpu:1");
  EXPECT_EQ(parsed("cpu:0-3"), "cpu:0, cpu:1, cpu:2, cpu:3");
  EXPECT_EQ(parsed(" cpu:2-2 , cpu:0"), "cpu:2, cpu:0");
  EXPECT_EQ(parse_device_list("cpu:0-63", "--devices").size(), 64u);
}

TEST(DeviceList, ADeviceMayStandTwice) {
  EXPECT_EQ(parsed("cpu:0,cpu:0"), "cpu:0, cpu:0");
  EXPECT_EQ(parsed("cpu:0-1,cpu:1"), "cpu:0, cpu:1, cpu:1");
}

TEST(DeviceList, LocalIsTheNumberOfAProcessAmongThoseOfItsHost) {
  EXPECT_EQ(device_names(parse_device_list("cpu:local, cpu:0", "--devices", 2)), "cpu:2, cpu:0");
  EXPECT_EQ(parsed("cpu:local"), "cpu:0") << "one that is alone";
  testing::expect_error(ExitCode::device, {"cuda:4095 is not on this machine"},
                        [] { require("cuda:local", "--devices", 4095); });
}

TEST(DeviceList, AutoTakesGpusInTurnAndElseCpuWorkers) {
  const auto gpus = cuda_devices();
  std::vector<DeviceId> all, three;
  for (const auto& gpu : gpus) all.push_back({DeviceKind::cuda, gpu.index});
  if (gpus.empty()) all.push_back({DeviceKind::cpu, 0});
  for (int i = 0; i < 3; ++i)
    three.push_back(gpus.empty() ? DeviceId{DeviceKind::cpu, i}
                                 : DeviceId{DeviceKind::cuda, gpus[static_cast<size_t>(i) % gpus.size()].index});
  EXPECT_EQ(parsed("auto"), device_names(all));
  EXPECT_EQ(parsed("auto:1"), device_names({all[0]}));
  EXPECT_EQ(parsed("auto:3"), device_names(three));
}

TEST(DeviceList, RefusesWhatItCannotRead) {
  for (const char* text :
       {"", " ", "cpu:", "cpu:x", "cpu:-1", "cpu:1-", "cpu:0-1-2", "cpu:0:1", "cpu:0,", ",cpu:0", "cpu:0;cpu:1",
        "cpu:99999999999", "auto:0", "auto:", "auto:x", "meta:0", "cpu: 0", "auto:local", "cpu:local-1"}) {
    SCOPED_TRACE(text);
    testing::expect_error(ExitCode::config, {"--devices: expected a device list, got '", "write for instance cpu:0-1"},
                          [&] { parse_device_list(text, "--devices"); });
  }
  const std::vector<std::pair<std::string, std::string>> meant = {
      {"gpu:0", "cuda:0"}, {"GPU:1-2", "cuda:1-2"}, {"CPU:0", "cpu:0"}, {"cpu", "cpu:0"}, {"cpu:3-1", "cpu:1-3"}};
  for (const auto& [text, instead] : meant)
    testing::expect_error(
        ExitCode::config,
        {"x.yaml:3: devices: expected a device list, got '" + text + "'; did you mean " + instead + "?"},
        [&text = text] { parse_device_list("cpu:0," + text, "x.yaml:3: devices"); });
}

TEST(DeviceList, RefusesWorkersPastTheLast) {
  testing::expect_error(ExitCode::device, {"--devices: cpu:64 is not on this machine", "cpu:0 to cpu:63"},
                        [] { require("cpu:63-64"); });
  testing::expect_error(ExitCode::device, {"--devices cpu:0-3 trains on 4 CPU workers"}, [] { require("cpu:61-64"); });
}

TEST(DeviceList, RefusesGpusThatAreNotThereAndShowsAWayOn) {
  if (!cuda_devices().empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_FALSE(cuda_absence().empty());
  testing::expect_error(ExitCode::device,
                        {"configs/a.yaml:4: devices: cuda:0 is not on this machine", cuda_absence(),
                         "there are cpu:0 to cpu:63", "--devices cpu:0-1"},
                        [] { require("cpu:0,cuda:0", "configs/a.yaml:4: devices"); });
}

TEST(DeviceList, RefusesGpusPastTheLast) {
  testing::expect_error(ExitCode::device, {"cuda:4096 is not on this machine"}, [] { require("cuda:4096"); });
}

/// The devices of another machine needn't exist on this one.
TEST(DeviceList, OfAnotherMachineIsReadAsItIsNamed) {
  const std::vector<DeviceId> devices = {{DeviceKind::cuda, 60}, {DeviceKind::cuda, 60}, {DeviceKind::cpu, 3}};
  EXPECT_EQ(devices_elsewhere(device_names(devices)), devices);
  EXPECT_EQ(devices_elsewhere(""), std::vector<DeviceId>());
}

}  // namespace
}  // namespace dptrain
