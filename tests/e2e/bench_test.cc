// What the program measures of its own devices, and the speed that it promises.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "device/cpu_isa.h"
#include "device/cuda_probe.h"
#include "e2e/command_fixture.h"
#include "support/sanitizer.h"

namespace dptrain {
namespace {

using testing::Finished;

class BenchTest : public testing::CommandTest {};

TEST_F(BenchTest, EveryCollectiveIsMeasuredBesideACopy) {
  const Finished finished =
      run({"bench", "comm", "--devices", "cpu:0-2", "--mb", "0.01,0.1", "--repeats", "3", "--json"});
  ASSERT_EQ(finished.exit, 0) << finished.err;
  const auto document = nlohmann::json::parse(finished.out);
  EXPECT_EQ(violations("comm.schema.json", document), std::vector<std::string>());
  EXPECT_EQ(document["devices"], (nlohmann::json{"cpu:0", "cpu:1", "cpu:2"}));
  ASSERT_EQ(document["comm"].size(), 10u) << "five collectives of two sizes";
  for (const auto& row : document["comm"]) {
    EXPECT_GT(row["seconds"], 0);
    EXPECT_GT(row["copy_s"], 0);
    EXPECT_GE(row["sent_bytes"], 2 * row["bytes"].get<int64_t>()) << row << "two of the ranks' buffers or more";
  }
  EXPECT_EQ(document["comm"][0]["collective"], "all_reduce");
  EXPECT_EQ(document["comm"][0]["sent_bytes"], 4 * document["comm"][0]["bytes"].get<int64_t>());
}

TEST_F(BenchTest, TheTableFitsATerminal) {
  const Finished finished = run({"bench", "comm", "--devices", "cpu:0,cpu:0", "--mb", "0.01", "--repeats", "1"});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  const auto lines = testing::lines_of(finished.out);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_TRUE(std::ranges::all_of(lines, [](const std::string& line) { return line.size() <= 80; }));
}

/// It would take millions of such messages to fill a cache.
TEST_F(BenchTest, MessagesMayBeOfAFewBytes) {
  const Finished finished =
      run({"bench", "comm", "--devices", "cpu:0-1", "--mb", "0.000001", "--repeats", "1", "--json"});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(nlohmann::json::parse(finished.out)["comm"][0]["bytes"], 8) << "a number for each worker";
}

TEST_F(BenchTest, ASignalEndsItWithASentence) {
  for (const auto& [number, exit, name] : {std::tuple{SIGINT, 130, "SIGINT"}, std::tuple{SIGTERM, 143, "SIGTERM"}}) {
    testing::Process process(
        program({"bench", "comm", "--devices", "cpu:0-2", "--mb", "0.01,1", "--repeats", "10000", "--json"}));
    process.wait_until([&] { return process.catches(number); });
    process.signal(number);
    const Finished finished = process.wait();
    expect_failed(finished, exit, {"stopped by ", name, "nothing was printed"});
    EXPECT_EQ(finished.out, "");
  }
}

TEST_F(BenchTest, RefusesWhatCannotBeMeasured) {
  expect_refused({"bench", "comm", "--devices", "cuda:99"}, 71, {"cuda:99"});
  expect_refused({"bench", "comm", "--devices", "dog:0"}, 78, {"dog:0"});
  expect_refused({"bench", "comm", "--mb", "0"}, 64, {"--mb"});
  expect_refused({"bench", "comm", "--mb", "nan"}, 64, {"--mb", "expected a number, got nan"});
  // 64 CPU workers would need two buffers of 4 GiB each.
  expect_refused({"bench", "comm", "--devices", "cpu:0-63", "--mb", "4096"}, 71,
                 {"--mb", "this machine's memory", "two of 4096 MiB for each of 64 CPU workers"});
  expect_refused({"bench"}, 64, {"expected one of its commands, got none"});
}

class BenchOpsTest : public testing::CommandTest {
 protected:
  /// Returns the document of `bench ops --json` for digits.yaml.
  nlohmann::json measured(const testing::Arguments& overrides) const {
    testing::Arguments arguments = {"bench", "ops", "--config", "digits.yaml", "--steps", "3", "--json"};
    for (const auto& assignment : overrides) arguments.insert(arguments.end(), {"--set", assignment});
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    return nlohmann::json::parse(finished.out);
  }
};

TEST_F(BenchOpsTest, EveryDevicesStepIsTakenApart) {
  const auto document = measured({"split=[3, 1]"});
  EXPECT_EQ(violations("operators.schema.json", document), std::vector<std::string>());
  ASSERT_EQ(document["devices"].size(), 2u) << "those of the list";
  for (const auto& device : document["devices"]) {
    const int samples = device["device"] == "cpu:0" ? 48 : 16;
    EXPECT_EQ(device["samples"], samples);
    double seconds = 0, flops = 0;
    for (const auto& row : device["operators"]) {
      EXPECT_GT(row["seconds"], 0) << row;
      seconds += row["seconds"].get<double>();
      flops += row["flops"].get<double>();
    }
    EXPECT_LE(seconds, 1.5 * device["step_s"].get<double>()) << "operators inside others count once";
    // LeNet's products per sample are 20 * 24^2 * 25, 50 * 8^2 * 500, 800 * 128 and 128 * 10 in the forward pass, and
    // twice that in the backward pass, without the gradient of the images. Where convolution and pool are one operator,
    // as with AVX2, the backward pass of convolutions counts a quarter: of the four values of a maximum, one has a
    // gradient.
    const double with_gradients = device["operators"].dump().find("conv2d_max_pool") != std::string::npos ? 0.25 : 1;
    const double convolved = 288'000 + 1'600'000, linear = 102'400 + 1'280;
    EXPECT_NEAR(flops, 2.0 * samples * (convolved + with_gradients * (288'000 + 2 * 1'600'000) + 3 * linear), 1);
  }
}

/// The choices for the convolutions of 1 and 32 channels.
class BenchWaysTest : public BenchOpsTest {
 protected:
  std::set<std::string> ways(const std::string& device, const std::string& algorithm) {
    const auto document =
        measured({"model={layers: [conv: {channels: 32, kernel: 3, padding: 1}, conv: {channels: 32, "
                  "kernel: 3, padding: 1}, global_avg_pool, linear: classes]}",
                  "devices=[" + device + "]", "strategy=single", "convolution=" + algorithm});
    std::set<std::string> found;
    for (const auto& row : document["devices"][0]["operators"])
      if (row["operator"].get<std::string>().starts_with("conv2d")) found.insert(row.value("way", ""));
    return found;
  }
};

TEST_F(BenchWaysTest, NamesTheWayOfAConvolution) {
  EXPECT_EQ(ways("cpu:0", "direct"), std::set<std::string>{"direct"});
  EXPECT_EQ(ways("cpu:0", "auto").contains("winograd"), cpu_isa() != CpuIsa::baseline);
}

TEST_F(BenchWaysTest, NamesTheWayOfAConvolutionOnCuda) {
  if (cuda_devices().empty()) GTEST_SKIP() << "no GPU: " << cuda_absence();
  EXPECT_EQ(ways("cuda:0", "direct"), std::set<std::string>{"cuDNN"});
  EXPECT_EQ(ways("cuda:0", "winograd"), (std::set<std::string>{"cuDNN", "winograd"}));
}

TEST_F(BenchOpsTest, TheTableFitsATerminal) {
  const Finished finished = run({"bench", "ops", "--config", "digits.yaml", "--steps", "1"});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  const auto lines = testing::lines_of(finished.out);
  EXPECT_TRUE(std::ranges::all_of(lines, [](const std::string& line) { return line.size() <= 80; })) << finished.out;
  for (const char* words : {"on cpu:1", "conv2d", "outside operators", "[32, 1, 28, 28]"})
    EXPECT_NE(finished.out.find(words), std::string::npos) << words << "\n" << finished.out;
}

TEST_F(BenchOpsTest, RefusesWhatCannotBeMeasured) {
  expect_refused({"bench", "ops", "--devices", "cuda:99"}, 71, {"cuda:99"});
  expect_refused({"bench", "ops", "--config", "none"}, 66, {"none"});
  expect_refused({"bench", "ops", "--steps", "0"}, 64, {"--steps"});
  expect_refused({"bench", "ops", "--set", "model=lanet"}, 78, {"lanet", "lenet"});
}

/// The speeds that docs/ci.md promises for a release build. Runs alone. If something else uses the cores all the same,
/// it slows some calls and not all, so the least of several measurements is the code's own cost.
class LongSpeedTest : public testing::CommandTest {
 protected:
  void SetUp() override {
#if !defined(__OPTIMIZE__)
    GTEST_SKIP() << "a build that isn't optimized has no speed to promise";
#endif
    if (testing::kShadowedMemory) GTEST_SKIP() << "a sanitizer's own work is no part of the promise";
  }

  /// CPU seconds, user and system, of all processes that have been waited for.
  static double cpu_s_of_children() {
    rusage used{};
    EXPECT_EQ(::getrusage(RUSAGE_CHILDREN, &used), 0);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
  }
};

TEST_F(LongSpeedTest, AStartTakesLessThan300MsOfCpuTime) {
  // CPU seconds, not seconds of the wall clock, which other processes stretch.
  constexpr double kMost_s = 0.3;
  double least_s = std::numeric_limits<double>::max();
  for (int round = 0; round < 5; ++round) {
    const double before_s = cpu_s_of_children();
    const Finished finished = run({"--config", "lenet_1cpu", "--out", "run", "--quiet", "--set", "epochs=", "--set",
                                   "steps=1", "--set", "eval_every=0"});
    ASSERT_EQ(finished.exit, 0) << finished.err;
    least_s = std::min(least_s, cpu_s_of_children() - before_s);
    std::filesystem::remove_all(path("run"));
  }
  EXPECT_LT(least_s, kMost_s);
}

TEST_F(LongSpeedTest, AnAllReduceTakesAtMostTwiceAsLongAsAMemcpy) {
  constexpr int kFewest = 10, kMost = 40;
  for (const int ranks : {2, 4}) {
    double all_reduce_s = std::numeric_limits<double>::max(), copy_s = all_reduce_s;
    // A round measures both, one after the other. More rounds are only needed if something disturbed each of the first
    // ones.
    for (int round = 0; round < kMost && (round < kFewest || all_reduce_s > 2 * copy_s); ++round) {
      const Finished finished = run({"bench", "comm", "--devices", "cpu:0-" + std::to_string(ranks - 1), "--mb", "25",
                                     "--repeats", "1", "--json"});
      ASSERT_EQ(finished.exit, 0) << finished.err;
      const auto measured = nlohmann::json::parse(finished.out)["comm"][0];
      ASSERT_EQ(measured["collective"], "all_reduce");
      all_reduce_s = std::min(all_reduce_s, measured["seconds"].get<double>());
      copy_s = std::min(copy_s, measured["copy_s"].get<double>());
    }
    EXPECT_LE(all_reduce_s, 2 * copy_s) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace dptrain
