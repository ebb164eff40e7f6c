// What the program measures of its own devices.
#include <signal.h>

#include <algorithm>
#include <tuple>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Finished;

class BenchTest : public testing::CommandTest {};

TEST_F(BenchTest, EveryCollectiveIsMeasuredBesideACopy) {
  const Finished finished =
      run({"bench", "comm", "--devices", "cpu:0-2", "--mb", "0.01,0.1", "--repeats", "3", "--json"});
  ASSERT_EQ(finished.exit, 0) << finished.err;
  const auto document = nlohmann::json::parse(finished.out);
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
  expect_refused({"bench"}, 64, {"subcommand"});
}

}  // namespace
}  // namespace dptrain
