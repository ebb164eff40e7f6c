// A comparison whose training hangs ends, and reports earlier measurements first.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "support/idx_files.h"
#include "train/comparison.h"
#include "train/experiment_of.h"

namespace dptrain::train {
namespace {

/// One rank's thread never ends; the other rank waits for it until timeout_s.
[[noreturn]] void compare_with_hung_rank() {
  const testing::ScratchFolder folder;
  ComparisonPlan plan =
      plan_comparison(configs_by_strategy(config_of({"timeout_s=1", "epochs=1"}), "single,ddp"), folder.path(), 1);
  plan.runs[1].trainings[0].experiment.faults = {{.kind = parallel::InjectedFault::Kind::hang, .rank = 1, .step = 2}};
  Comparison comparison(plan, {.describe_failure = [](const FailedTraining&) { return std::string("{}"); },
                               .on_hung =
                                   [&] {
                                     const auto figures = comparison.figures();
                                     const auto fault = plan.runs[1].trainings[0].directory / "fault.json";
                                     std::cerr << figures.size() << " run measured, " << figures.at(0).run
                                               << "; a fault is "
                                               << (std::filesystem::exists(fault) ? "written" : "missing") << std::endl;
                                   }});
  const StopSignal stop = 0;
  comparison.run([](const PlannedTraining&) { return std::make_unique<RecordingObserver>(); }, stop);
  std::cerr << "it went on" << std::endl;
  std::exit(0);
}

TEST(HungComparisonDeathTest, TellsWhatWasMeasuredFirst) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(compare_with_hung_rank(), ::testing::ExitedWithCode(75),
              "1 run measured, single; a fault is written\n.*waited 1 s in ");
}

}  // namespace
}  // namespace dptrain::train
