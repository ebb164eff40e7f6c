// The timeline of a plan has the spans of a run's timeline, as long as the plan says.
#include "plan/planned_timeline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <set>

#include "plan/logged_calls.h"
#include "plan/planned_of.h"

namespace dptrain {
namespace {

using parallel::TimelineRow;
using testing::experiment_of_lines;

const std::string kFourSteps =
    "dataset: {name: synthetic, shape: [1, 28, 28], samples: 320}\nbatch_size: 32\n"
    "learning_rate: 0.1\nsteps: 4\nthreads: 1\n";

struct Drawn {
  const char* name;
  const char* lines;
  const char* model = "lenet";

  std::string experiment() const { return std::string("model: ") + model + "\n" + kFourSteps + lines; }
};
void PrintTo(const Drawn& drawn, std::ostream* out) { *out << drawn.name; }

class PlannedTimelines : public ::testing::TestWithParam<Drawn> {
 protected:
  PlannedTimelines() : experiment_(experiment_of_lines(GetParam().experiment())), data_(experiment_.dataset.open()) {}

  parallel::StrategyContext context(bool has_timelines) const {
    parallel::StrategyContext context = train::strategy_context(experiment_, *data_.train);
    context.team.has_timelines = has_timelines;
    return context;
  }
  plan::PlannedStep planned(bool has_timelines) const {
    return plan::plan_step(
        {.context = context(has_timelines),
         .make = experiment_.strategy.make,
         .data = data_.train,
         .loader = [&](parallel::Strategy& strategy) { return train::loader_options(experiment_, strategy); },
         .world = WorldShape({static_cast<int>(experiment_.devices.size())})});
  }
  /// Times by made-up figures: a FLOP takes one second.
  plan::StepTimes times(const plan::PlannedStep& step) const {
    const plan::DeviceFigures figures = testing::unit_figures();
    const plan::OperatorEstimates estimates(figures, Precision::fp32);
    plan::CallTimes calls({.world = WorldShape({static_cast<int>(step.ranks.size())}),
                           .devices = experiment_.devices,
                           .figures = figures});
    return plan::step_times({.step = step, .estimates = estimates, .calibration = {.host_s = 7}, .calls = calls});
  }
  /// The timelines of some steps of the run itself.
  std::vector<std::vector<TimelineRow>> trained() const {
    const auto strategy = experiment_.strategy.make(context(true));
    strategy->show_steps({.first = 3, .last = 8});
    BatchLoader loader(data_.train, train::loader_options(experiment_, *strategy));
    loader.start_epoch(1);
    for (int64_t step = 1; step <= 8; ++step)
      strategy->train_step(loader.next(), {.step = step, .epoch = 1, .learning_rate = 0.1});
    strategy->take_scores(true);
    return strategy->take_timelines();
  }

  train::Experiment experiment_;
  Datasets data_;
};

/// The names of a row's spans. Left out are steps and waits, which needn't be in each; the parts of a step that neither
/// plan nor rank does; and what takes next to no time on a CPU worker: a stage without losses publishes 32 bytes.
std::set<std::string> names_of(const TimelineRow& row) {
  std::set<std::string> names;
  for (const TimelineSpan& span : row.spans)
    if (std::ranges::none_of(std::array{"step", "wait", "neither", "stamp_time", "publish"},
                             [&](const char* other) { return span.name.starts_with(other); }))
      names.insert(span.name);
  return names;
}

TEST_P(PlannedTimelines, HaveWhatATrainingsHas) {
  const plan::PlannedStep step = planned(true);
  const auto drawn = planned_timelines(step, times(step));
  const auto shown = trained();
  ASSERT_EQ(drawn.size(), shown.size());
  for (size_t rank = 0; rank < drawn.size(); ++rank)
    for (size_t row = 0; row < 2; ++row) {
      const auto planned_names = names_of(drawn[rank].at(row));
      // A plan counts copies and fills, which a run doesn't show.
      for (const std::string& name : names_of(shown[rank].at(row)))
        EXPECT_TRUE(planned_names.contains(name)) << name << " of rank " << rank;
    }
}

TEST_P(PlannedTimelines, AddUpToThePlan) {
  const plan::PlannedStep step = planned(true);
  const plan::StepTimes times = this->times(step);
  const auto drawn = planned_timelines(step, times);
  for (size_t rank = 0; rank < drawn.size(); ++rank) {
    double waits = 0, last = 0;
    int64_t most = 0;
    std::vector<double> open;
    for (const TimelineSpan& span : drawn[rank][0].spans) {
      const double begin = seconds_between({}, span.begin), end = seconds_between({}, span.end);
      if (span.name == "wait for others") waits += end - begin;
      last = std::max(last, end);
      most = std::max(most, span.held_bytes);
      // A later span is within one that hasn't ended, or after it.
      while (!open.empty() && open.back() <= begin) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(end, open.back()) << span.name << " of rank " << rank;
      }
      open.push_back(end);
    }
    const double rounding = 1e-6 * times.step_s;
    if (step.following.empty()) {
      EXPECT_NEAR(waits, times.ranks[rank].exposed_comm_s, rounding);
      EXPECT_NEAR(last, times.step_s, rounding);
    }
    EXPECT_LE(most, step.ranks[rank].peak_bytes);
    EXPECT_GT(most, step.ranks[rank].peak_bytes / 2) << "what an operator takes and gives back isn't shown";
  }
}

TEST_P(PlannedTimelines, PassesHaveTheirOperators) {
  const plan::PlannedStep step = planned(true);
  for (const auto& rows : planned_timelines(step, times(step))) {
    const std::vector<TimelineSpan>& spans = rows[0].spans;
    const auto lies_in_a_pass = [&](const TimelineSpan& inner) {
      return std::ranges::any_of(spans, [&](const TimelineSpan& pass) {
        return pass.name.starts_with("backward") && pass.begin <= inner.begin && inner.end <= pass.end;
      });
    };
    for (const TimelineSpan& span : spans)
      EXPECT_TRUE(!span.name.starts_with("conv2d_max_pool backward") || lies_in_a_pass(span)) << span.name;
  }
}

TEST_P(PlannedTimelines, AreOfTheSameStep) {
  const plan::PlannedStep with = planned(true), without = planned(false);
  for (size_t rank = 0; rank < with.ranks.size(); ++rank) {
    EXPECT_EQ(with.ranks[rank].peak_bytes, without.ranks[rank].peak_bytes);
    EXPECT_EQ(with.ranks[rank].operators.size(), without.ranks[rank].operators.size());
    EXPECT_EQ(with.ranks[rank].calls.size(), without.ranks[rank].calls.size());
    EXPECT_FALSE(with.ranks[rank].parts.empty());
    EXPECT_TRUE(without.ranks[rank].parts.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, PlannedTimelines,
    ::testing::Values(
        Drawn{"single", "devices: [cpu:0]\n"}, Drawn{"ddp", "devices: [cpu:0-1]\n"},
        Drawn{"ddp_buckets", "devices: [cpu:0-1]\nstrategy: {name: ddp, bucket_mb: 0.05, first_bucket_mb: 0.01}\n"},
        Drawn{"next_forward", "devices: [cpu:0-1]\nstrategy: {name: ddp, overlap: next_forward}\n"},
        Drawn{"data_parallel", "devices: [cpu:0-1]\nstrategy: data_parallel\n"},
        Drawn{"parallel_criterion", "devices: [cpu:0-1]\nstrategy: {name: data_parallel, criterion: parallel}\n"},
        Drawn{"store", "devices: [cpu:0-1]\nstrategy: kvstore\n"},
        Drawn{"accumulate", "devices: [cpu:0-1]\naccumulate: 2\n"}, Drawn{"shards", "devices: [cpu:0-1]\nshards: 4\n"},
        Drawn{"pipeline",
              "devices: [cpu:0-1]\nstrategy: {name: model_parallel, stages: [conv1, conv2], micro_batches: 4}\n"},
        Drawn{"gpipe",
              "devices: [cpu:0-1]\nstrategy: {name: model_parallel, stages: [conv1, fc1], micro_batches: 4, schedule: "
              "gpipe}\n"},
        Drawn{"zero_bubble",
              "devices: [cpu:0-1]\nstrategy: {name: model_parallel, stages: [conv1, fc1], micro_batches: 4, schedule: "
              "zero_bubble}\n"},
        Drawn{"interleaved",
              "devices: [cpu:0-1]\nstrategy: {name: model_parallel, stages: [conv1, conv2, flatten1, fc2], "
              "micro_batches: 4, schedule: interleaved}\n",
              "{layers: [conv: {channels: 16, kernel: 3}, relu, conv: {channels: 16, kernel: 3}, relu, flatten, "
              "linear: 20, relu, linear: classes]}"},
        Drawn{"hybrid", "devices: [cpu:0-3]\nstrategy: {name: hybrid, model_parallel: 2, stages: [conv1, conv2]}\n"},
        Drawn{"sharded_optimizer", "devices: [cpu:0-1]\nstrategy: {name: ddp, shard_optimizer: true}\n"},
        Drawn{"fsdp", "devices: [cpu:0-1]\nstrategy: fsdp\n"},
        Drawn{"adam_ema", "devices: [cpu:0]\noptimizer: adam\nema: 0.9\n"}),
    [](const auto& drawn) { return std::string(drawn.param.name); });

}  // namespace
}  // namespace dptrain
