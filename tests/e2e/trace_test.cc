// --trace: the values that it takes, the file that it writes, and what is printed.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;

class TraceTest : public testing::CommandTest {
 protected:
  Finished traced(const std::string& out, const Arguments& flags, const Arguments& overrides = {}) const {
    Arguments all = training(out, overrides);
    all.insert(all.end(), flags.begin(), flags.end());
    return run(all);
  }
  /// The names of the steps in a rank's row.
  std::vector<std::string> steps(const std::string& out, int rank = 0) const {
    std::vector<std::string> names;
    const auto trace = json_of(out + "/trace.json");
    for (const auto& event : trace["traceEvents"])
      if (event["ph"] == "X" && event["pid"] == rank && event["name"].get<std::string>().starts_with("step "))
        names.push_back(event["name"]);
    return names;
  }
};

TEST_F(TraceTest, TenStepsFromTheThirdOnOrThoseThatAreNamed) {
  ASSERT_EQ(traced("run", {"--trace"}, {"batch_size=20"}).exit, 0);
  EXPECT_EQ(steps("run").size(), 10U);
  EXPECT_EQ(steps("run").front(), "step 3");
  ASSERT_EQ(traced("few", {"--trace", "2"}).exit, 0);
  EXPECT_EQ(steps("few"), (Arguments{"step 3", "step 4"}));
  ASSERT_EQ(traced("named", {"--trace", "1-2"}).exit, 0);
  EXPECT_EQ(steps("named"), (Arguments{"step 1", "step 2"}));
  train("plain", {"batch_size=20"});
  EXPECT_EQ(hash("run"), hash("plain"));
  EXPECT_FALSE(exists("plain/trace.json"));
}

TEST_F(TraceTest, AResumedTrainingShowsWhatItTrains) {
  ASSERT_EQ(traced("run", {"--trace", "1-1"}).exit, 0);
  const int done = json_of("run/summary.json")["steps"];
  const std::string asked = fmt::format("1-{}", done + 2);
  ASSERT_EQ(traced("run", {"--trace", asked, "--resume"}, {"epochs=2"}).exit, 0);
  EXPECT_EQ(steps("run"), (Arguments{fmt::format("step {}", done + 1), fmt::format("step {}", done + 2)}));
  EXPECT_EQ(json_of("run/trace.json")["otherData"]["steps"], fmt::format("{}-{}", done + 1, done + 2));
  ASSERT_EQ(traced("run", {"--overwrite"}).exit, 0);
  EXPECT_FALSE(exists("run/trace.json")) << "it is the earlier run's";
}

TEST_F(TraceTest, ATrainingWithNothingLeftToTrainSaysThatNothingIsShown) {
  train("run");
  std::filesystem::remove(path("run/summary.json"));
  const Finished finished = traced("run", {"--trace", "--resume"});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE((finished.out + finished.err).find("but no step is left to train"), std::string::npos)
      << finished.out << finished.err;
  EXPECT_FALSE(exists("run/trace.json"));
}

TEST_F(TraceTest, OneThatNoRunHasWrittenIsNotReplaced) {
  std::filesystem::create_directories(path("foreign"));
  folder_.write("foreign/trace.json", "mine");
  EXPECT_EQ(traced("foreign", {"--trace"}).exit, 74);
  EXPECT_EQ(text("foreign/trace.json"), "mine");
}

TEST_F(TraceTest, AnythingElseThanStepsIsRefused) {
  for (const char* wrong : {"0", "-1", "x", "3-", "5-4", "1-2-3", "0-4", "99999999999999999999"}) {
    Arguments all = training("refused");
    all.emplace_back(std::string("--trace=") + wrong);
    expect_refused(all, 64, {"--trace", "a number of steps, or the first and the last step", wrong});
  }
}

}  // namespace
}  // namespace dptrain
