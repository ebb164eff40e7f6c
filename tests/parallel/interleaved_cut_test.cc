// How a model is cut for several stages per device, by its stages' costs.
#include "parallel/interleaved_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <string>

namespace dptrain::parallel {
namespace interleaved_cut_test {

PipelineStep step_of(int devices, int stages_per_device, int64_t micro_batches) {
  return {.schedule = PipelineSchedule::interleaved,
          .stages = devices * stages_per_device,
          .stages_per_device = stages_per_device,
          .micro_batches = micro_batches};
}

double seconds_of(std::span<const UnitCost> units, const PipelineStep& step, const PipelineCut& cut) {
  std::vector<StageSeconds> stages;
  for (const auto& [begin, end] : cut) {
    double sum = 0;
    for (int unit = begin; unit < end; ++unit) sum += units[static_cast<size_t>(unit)].seconds;
    stages.push_back({.forward = sum / 3, .backward = 2 * sum / 3});
  }
  return step_seconds(step, stages);
}

void for_each_cut(int units, int stages, const std::function<void(const PipelineCut&)>& visit, PipelineCut cut = {}) {
  const int begin = cut.empty() ? 0 : cut.back().end, left = stages - static_cast<int>(cut.size());
  for (int end = left > 1 ? begin + 1 : units; end <= units - (left - 1); ++end) {
    PipelineCut longer = cut;
    longer.push_back({.begin = begin, .end = end});
    left > 1 ? for_each_cut(units, stages, visit, longer) : visit(longer);
  }
}

std::vector<int> ends_of(const PipelineCut& cut) {
  std::vector<int> ends;
  for (const nn::StageRange& range : cut) ends.push_back(range.end);
  return ends;
}

TEST(InterleavedCut, EqualUnitsAreSharedOutEvenly) {
  const std::vector<UnitCost> units(8, {.seconds = 1});
  EXPECT_EQ(ends_of(cut_by_cost(units, step_of(2, 2, 4))), (std::vector<int>{2, 4, 6, 8}));
}

/// All stages of a device count together. A search that looked only at the slowest stage would choose slower cuts.
TEST(InterleavedCut, IsCloseToTheBestOfAll) {
  std::mt19937 random(7);
  double worst = 1, sum = 0, sum_of_slowest_stage = 0;
  int best = 0, trials = 0;
  for (const auto& [devices, of_device, count] : {std::tuple(2, 2, 10), {2, 3, 11}, {3, 2, 10}, {4, 2, 12}})
    for (int trial = 0; trial < 50; ++trial, ++trials) {
      std::vector<UnitCost> units;
      for (int unit = 0; unit < count; ++unit)
        units.push_back({.seconds = std::uniform_real_distribution(0.2, 2.0)(random)});
      const PipelineStep step = step_of(devices, of_device, 2 * devices);
      double least = std::numeric_limits<double>::infinity(), least_stage = least, of_least_stage = 0;
      for_each_cut(count, step.stages, [&](const PipelineCut& cut) {
        const double seconds = seconds_of(units, step, cut);
        least = std::min(least, seconds);
        double slowest = 0;
        for (const auto& [begin, end] : cut) {
          double stage = 0;
          for (int unit = begin; unit < end; ++unit) stage += units[static_cast<size_t>(unit)].seconds;
          slowest = std::max(slowest, stage);
        }
        if (slowest < least_stage) of_least_stage = seconds;
        least_stage = std::min(least_stage, slowest);
      });
      const double ratio = seconds_of(units, step, cut_by_cost(units, step)) / least;
      worst = std::max(worst, ratio);
      sum += ratio;
      sum_of_slowest_stage += of_least_stage / least;
      best += ratio < 1 + 1e-9;
    }
  EXPECT_LT(worst, 1.15);
  EXPECT_LT(sum / trials, 1.01);
  EXPECT_GT(best, trials / 2);
  EXPECT_GT(sum_of_slowest_stage / trials, 1.04) << "what a cut by stages alone would lose";
}

int64_t largest_device(std::span<const UnitCost> units, const PipelineStep& step, const PipelineCut& cut) {
  int64_t largest = 0;
  for (int device = 0; device < step.devices(); ++device) {
    int64_t fixed = 0, held = 0, most_held = 0;
    const auto of = [&](int stage) {
      const auto& [begin, end] = cut[static_cast<size_t>(stage)];
      return cost_of(units.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    };
    for (const int stage : step.stages_on(device)) fixed += of(stage).fixed_bytes;
    for (const StageAction& action : actions_of(step, device)) {
      const UnitCost stage = of(action.stage);
      held += (action.kind == StageAction::Kind::forward ? 1 : -1) * (stage.input_bytes + stage.kept_bytes);
      most_held = std::max(most_held, held);
    }
    largest = std::max(largest, fixed + most_held);
  }
  return largest;
}

/// The limit is 5 % above the least memory that any cut takes.
TEST(InterleavedCut, FindsOneThatFits) {
  std::mt19937 random(11);
  int over = 0, trials = 0;
  double worst = 1;
  for (const auto& [devices, of_device, count] : {std::tuple(2, 2, 10), {2, 3, 11}, {3, 2, 10}, {4, 2, 12}})
    for (int trial = 0; trial < 50; ++trial, ++trials) {
      std::vector<UnitCost> units;
      const auto some = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(most / 10, most)(random); };
      for (int unit = 0; unit < count; ++unit)
        units.push_back({.seconds = 1e-3 * static_cast<double>(some(1000)),
                         .fixed_bytes = some(1000),
                         .input_bytes = some(50),
                         .kept_bytes = some(100)});
      const PipelineStep step = step_of(devices, of_device, 2 * devices);
      int64_t least = std::numeric_limits<int64_t>::max();
      for_each_cut(count, step.stages,
                   [&](const PipelineCut& cut) { least = std::min(least, largest_device(units, step, cut)); });
      const auto limit = static_cast<int64_t>(1.05 * static_cast<double>(least));
      const int64_t found = largest_device(units, step, cut_by_cost(units, step, limit));
      over += found > limit;
      worst = std::max(worst, static_cast<double>(found) / static_cast<double>(limit));
    }
  EXPECT_LT(over, trials / 20) << "a search may miss it";
  EXPECT_LT(worst, 1.1);
}

TEST(InterleavedCut, DevicesFitInTheLimitOfMemory) {
  std::vector<UnitCost> units(8, {.seconds = 1, .fixed_bytes = 100});
  units[0].fixed_bytes = 300;
  const PipelineStep step = step_of(2, 2, 4);
  EXPECT_EQ(ends_of(cut_by_cost(units, step, 600)), (std::vector<int>{2, 4, 6, 8}));
  const auto fixed_on = [&](const PipelineCut& cut, size_t device) {
    int64_t bytes = 0;
    for (size_t stage = device; stage < cut.size(); stage += 2)
      for (int unit = cut[stage].begin; unit < cut[stage].end; ++unit)
        bytes += units[static_cast<size_t>(unit)].fixed_bytes;
    return bytes;
  };
  const PipelineCut cut = cut_by_cost(units, step, 500);
  EXPECT_EQ(fixed_on(cut, 0), 500);
  EXPECT_EQ(fixed_on(cut, 1), 500);
}

/// The first device holds four micro-batches of its first stage and one of its second, with 100 bytes per unit.
TEST(InterleavedCut, ActivationsCountAsOftenAsTheyAreHeld) {
  const std::vector<UnitCost> units(5, {.seconds = 1, .kept_bytes = 100});
  const PipelineStep step = step_of(2, 2, 4);
  const PipelineCut cut = cut_by_cost(units, step, 500);
  EXPECT_EQ(cut[0].end - cut[0].begin, 1);
  EXPECT_EQ(cut[2].end - cut[2].begin, 1) << "the fifth unit is on the other device";
  EXPECT_NE(ends_of(cut_by_cost(units, step, 900)), ends_of(cut)) << "a step is shorter with two on the first one";
}

}  // namespace interleaved_cut_test
}  // namespace dptrain::parallel
