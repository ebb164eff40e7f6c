// Learning rates step by step against torch.optim.lr_scheduler.

#include "optim/schedule.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "config/config_document.h"
#include "support/expect_error.h"
#include "support/source_tree.h"

namespace dptrain {
namespace {

optim::ScheduleSpec read(const std::string& text) {
  optim::ScheduleSpec spec;
  const ConfigSession session(parse_config("schedule: " + text + "\n", "a.yaml"),
                              [&](ConfigReader& config) { spec = optim::read_schedule(config); });
  return spec;
}

TEST(Schedules, AreThoseOfPyTorch) {
  std::ifstream file(testing::source_file("tests/optim/pytorch_schedules.json"));
  const auto cases = nlohmann::json::parse(file);
  EXPECT_EQ(cases.size(), 12u);
  for (const auto& [text, rates] : cases.items()) {
    SCOPED_TRACE(text);
    const optim::Schedule schedule(read(text), 0.4, 7, 42);
    for (size_t i = 0; i < rates.size(); ++i)
      EXPECT_NEAR(schedule.rate(static_cast<int64_t>(i) + 1), rates[i].get<double>(), 1e-9) << "step " << i + 1;
  }
}

/// The comparison includes the schedule's state, evaluation by evaluation.
TEST(Schedules, APlateauIsThatOfPyTorch) {
  std::ifstream file(testing::source_file("tests/optim/pytorch_plateaus.json"));
  const auto cases = nlohmann::json::parse(file);
  EXPECT_EQ(cases.size(), 5u);
  for (const auto& [text, of] : cases.items()) {
    SCOPED_TRACE(text);
    const optim::ScheduleSpec spec = read(text);
    optim::Schedule schedule(spec, 0.4, 7, 42);
    const optim::Goal goal = of["mode"] == "min" ? optim::Goal::lowest : optim::Goal::highest;
    optim::PlateauState state;
    int changes = 0;
    for (size_t i = 0; i < of["values"].size(); ++i) {
      EXPECT_DOUBLE_EQ(schedule.rate(1), of["rates"][i].get<double>()) << "evaluation " << i + 1;
      if (state.count(of["values"][i], spec.plateau, goal)) changes += schedule.reduce() ? 1 : 0;
      // A resumed run begins like this.
      optim::Schedule anew(spec, 0.4, 7, 42);
      anew.scale_by(schedule.scale());
      EXPECT_EQ(anew.rate(1), schedule.rate(1));
    }
    EXPECT_GT(changes, 0);
  }
}

TEST(Schedules, APlateauBehindAWarmUp) {
  optim::Schedule schedule(read("{name: plateau, factor: 0.5, warmup_steps: 5}"), 0.4, 7, 42);
  EXPECT_NEAR(schedule.rate(3), 0.24, 1e-12);
  EXPECT_TRUE(schedule.reduce());
  EXPECT_NEAR(schedule.rate(3), 0.12, 1e-12);
  EXPECT_EQ(schedule.rate(6), 0.2);
  // With another factor from here on.
  optim::Schedule more(read("{name: plateau, factor: 0.9}"), 0.4, 7, 42);
  more.scale_by(schedule.scale());
  EXPECT_EQ(more.rate(6), 0.2);
  EXPECT_TRUE(more.reduce());
  EXPECT_NEAR(more.rate(6), 0.18, 1e-12);
  optim::Schedule other(read("cosine"), 0.4, 7, 42);
  other.scale_by(schedule.scale());
  EXPECT_EQ(other.rate(1), 0.4) << "of another kind";
}

TEST(Schedules, StepsCountFromTheBeginningBehindAWarmUpToo) {
  const optim::Schedule bare(read("{name: step, every_epochs: 2, gamma: 0.5}"), 0.4, 7, 42);
  const optim::Schedule warmed(read("{name: step, every_epochs: 2, gamma: 0.5, warmup_steps: 5}"), 0.4, 7, 42);
  for (int64_t step = 1; step <= 42; ++step)
    EXPECT_NEAR(warmed.rate(step), step < 5 ? 0.08 * static_cast<double>(step) : bare.rate(step), 1e-12)
        << "step " << step;
}

TEST(Schedules, APolynomialEndsAtItsLeastRate) {
  const optim::Schedule schedule(read("{name: polynomial, power: 3, min: 0.1}"), 0.4, 7, 42);
  EXPECT_EQ(schedule.rate(1), 0.4);
  EXPECT_NEAR(schedule.rate(22), 0.1 + 0.3 / 8, 1e-12);
  EXPECT_NEAR(schedule.rate(43), 0.1, 1e-12);
}

TEST(Schedules, MilestonesAreEpochsInOrder) {
  EXPECT_EQ(read("{name: multi_step, milestones: 3}").milestones, std::vector<int64_t>{3});
  using testing::expect_error;
  expect_error(ExitCode::config, {"milestones", "required"}, [] { read("multi_step"); });
  expect_error(ExitCode::config, {"milestones", "rising order", "got [5, 3]"},
               [] { read("{name: multi_step, milestones: [5, 3]}"); });
  expect_error(ExitCode::config, {"milestones", "expected epochs, got none", "constant"},
               [] { read("{name: multi_step, milestones: []}"); });
  expect_error(ExitCode::config, {"milestones", "rising order", "got [3, 3]"},
               [] { read("{name: multi_step, milestones: [3, 3]}"); });
  expect_error(ExitCode::config, {"milestones[0]", "at least 1, or a list", "got 0"},
               [] { read("{name: multi_step, milestones: [0, 3]}"); });
}

TEST(Schedules, AWarmUpLongerThanTheTrainingOnlyRises) {
  for (const char* kind : {"constant", "step", "cosine", "linear", "polynomial"}) {
    const optim::Schedule schedule(read(std::string("{name: ") + kind + ", warmup_steps: 60}"), 0.4, 7, 42);
    for (int64_t step = 1; step <= 42; ++step)
      EXPECT_NEAR(schedule.rate(step), 0.4 * static_cast<double>(step) / 60, 1e-12) << kind << ", step " << step;
  }
}

TEST(Schedules, RefuseWhatMakesNoSense) {
  const auto refused = [](const char* text, std::initializer_list<std::string_view> words) {
    testing::expect_error(ExitCode::config, words, [&] { read(text); });
  };
  refused("cosin", {"a.yaml:1", "schedule", "cosine"});
  refused("{name: step, gamma: 0}", {"gamma", "over 0"});
  refused("{name: one_cycle, peak_at: 1}", {"peak_at"});
  refused("{name: one_cycle, warmup_steps: 3}", {"warmup_steps"});
  refused("{name: plateau, factor: 1}", {"factor"});
  refused("{name: plateau, patience: -1}", {"patience"});
  refused("{name: linear, warmup_steps: 3, warmup_epochs: 1}", {"warmup_epochs", "both"});
}

}  // namespace
}  // namespace dptrain
