// The curves that a run writes for TensorBoard, through the program, also for a run that is killed and resumed.
#include <signal.h>

#include "e2e/command_fixture.h"
#include "support/event_files.h"

namespace dptrain {
namespace {

using testing::Arguments;

class TensorboardRunTest : public testing::CommandTest {
 protected:
  testing::Curves curves(const std::string& out) const { return testing::curves_of(path(out + "/tb")); }
  /// A curve from metrics.jsonl or steps.jsonl.
  std::vector<std::pair<int64_t, float>> points(const std::string& file, const std::string& pointer) const {
    std::vector<std::pair<int64_t, float>> points;
    for (const auto& line : json_lines(file))
      points.emplace_back(line["step"], line.at(nlohmann::json::json_pointer(pointer)).get<float>());
    return points;
  }
  void expect_all_points_once(const std::string& out) const {
    const testing::Curves found = curves(out);
    EXPECT_EQ(found.at("train/loss"), points(out + "/metrics.jsonl", "/train/loss"));
    EXPECT_EQ(found.at("test/accuracy"), points(out + "/metrics.jsonl", "/test/accuracy"));
    EXPECT_EQ(found.at("time/other_s"), points(out + "/metrics.jsonl", "/time/other_s"));
    EXPECT_EQ(found.at("steps/loss"), points(out + "/steps.jsonl", "/loss"));
  }
};

TEST_F(TensorboardRunTest, HasTheCurvesOfItsMetricsAndItsConfiguration) {
  train("run", {"tensorboard=true", "log_steps=true", "epochs=2"});
  expect_all_points_once("run");
  const auto files = testing::event_files(path("run/tb"));
  ASSERT_EQ(files.size(), 1u);
  std::string config;
  for (const auto& event : testing::events_in(testing::text_of(files[0])))
    for (const auto& [tag, text] : event.texts) config += tag + "\n" + text;
  EXPECT_NE(config.find("config\n    "), std::string::npos) << config;
  EXPECT_NE(config.find("\n    tensorboard: true\n"), std::string::npos) << config;
  EXPECT_EQ(testing::lines_of(config).size(), 1 + testing::lines_of(text("run/config.yaml")).size());

  Arguments arguments = training("run", {"tensorboard=true"});
  arguments.emplace_back("--overwrite");
  EXPECT_EQ(run(arguments).exit, 0);
  EXPECT_EQ(testing::event_files(path("run/tb")).size(), 1u);
  EXPECT_EQ(curves("run").at("train/loss").size(), 1u);
  EXPECT_FALSE(curves("run").contains("steps/loss")) << "left of the run before";
  arguments = training("run");
  arguments.emplace_back("--overwrite");
  EXPECT_EQ(run(arguments).exit, 0);
  EXPECT_FALSE(exists("run/tb"));
}

/// Steps beyond the newest checkpoint are written twice, but shown once.
TEST_F(TensorboardRunTest, OneThatIsKilledAndGoesOnHasEachPointOnce) {
  const auto settings = [](int steps) {
    return Arguments{"tensorboard=true", "log_steps=true",           "epochs=",
                     "batch_size=32",    "checkpoint.every_steps=7", "steps=" + std::to_string(steps)};
  };
  testing::Process process(program(training("run", settings(1'000'000))));
  process.wait_until([&] { return testing::lines_of(text("run/steps.jsonl")).size() > 25; });
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait().exit, 137);
  const auto last = static_cast<int>(curves("run").at("steps/loss").back().first);
  Arguments resuming = training("run", settings(last + 5));
  resuming.emplace_back("--resume");
  const testing::Finished resumed = run(resuming);
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(testing::event_files(path("run/tb")).size(), 2u);
  expect_all_points_once("run");
}

/// The option changes no weight, and a run can be resumed with and without it.
TEST_F(TensorboardRunTest, MayBeSwitchedOnWhenARunGoesOn) {
  train("run");
  Arguments resuming = training("run", {"tensorboard=true", "epochs=2"});
  resuming.emplace_back("--resume");
  const testing::Finished resumed = run(resuming);
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("tensorboard false -> true"), std::string::npos) << resumed.out;
  EXPECT_EQ(curves("run").at("train/loss").size(), 1u) << "from there on";
  train("whole", {"epochs=2"});
  EXPECT_EQ(hash("run"), hash("whole"));
}

}  // namespace
}  // namespace dptrain
