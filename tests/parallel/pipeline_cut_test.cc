// How a model is cut for a pipeline: as configured, or by its units' costs.
#include "parallel/pipeline_cut.h"

#include "support/expect_error.h"

namespace dptrain::parallel {
namespace pipeline_cut_test {

using testing::expect_error;

const std::vector<std::string> kUnits = {"conv1", "layer1.0", "layer1.1", "fc"};

/// A cut as text: "0-2 2-4".
std::string text_of(const PipelineCut& cut) {
  std::string text;
  for (const auto& [begin, end] : cut)
    text += (text.empty() ? "" : " ") + std::to_string(begin) + "-" + std::to_string(end);
  return text;
}

std::vector<UnitCost> units_of(const std::vector<double>& seconds) {
  std::vector<UnitCost> units;
  for (const double of_one : seconds) units.push_back({.seconds = of_one});
  return units;
}

TEST(PipelineCut, NumbersSayHowManyStagesOfTheModel) {
  EXPECT_EQ(text_of(cut_as_listed({.entries = {"1", "3"}}, kUnits, 2)), "0-1 1-4");
  EXPECT_EQ(text_of(cut_as_listed({.entries = {"2", "1", "1"}}, kUnits, 3)), "0-2 2-3 3-4");
}

TEST(PipelineCut, NamesSayWhatAStageBeginsWith) {
  EXPECT_EQ(text_of(cut_as_listed({.entries = {"conv1", "layer1.1"}}, kUnits, 2)), "0-2 2-4");
  EXPECT_EQ(text_of(cut_as_listed({.entries = {"conv1", "layer1.0", "fc"}}, kUnits, 3)), "0-1 1-3 3-4");
}

TEST(PipelineCut, MistakesListTheModelsStages) {
  const auto refused = [](const std::vector<std::string>& entries, std::initializer_list<std::string_view> words) {
    const CutRequest request{.entries = entries, .where = "a.yaml:5: strategy.stages"};
    expect_error(ExitCode::config, {"a.yaml:5: strategy.stages", "conv1, layer1.0, layer1.1, fc"},
                 [&] { require_cut(request, kUnits, static_cast<int>(entries.size()), 1); });
    expect_error(ExitCode::config, words, [&] { require_cut(request, kUnits, static_cast<int>(entries.size()), 1); });
  };
  refused({"1", "2"}, {"add up to the model's 4 stages", "got 1 + 2 = 3"});
  refused({"4", "0"}, {"at least one stage", "got 0", "write 1 or more"});
  refused({"conv1", "layer1.2"}, {"'layer1.2'", "did you mean 'layer1."});
  refused({"conv1", "2"}, {"name", "got '2'"});
  refused({"layer1.0", "fc"}, {"begins with the model's first stage, conv1", "got layer1.0"});
  refused({"conv1", "fc", "layer1.0"}, {"order", "got conv1, fc, layer1.0"});
  refused({"conv1", "conv1"}, {"each at most once"});
  expect_error(ExitCode::config, {"at most 4 devices, as many as the model has stages", "got 5"},
               [] { require_cut({}, kUnits, 5, 5); });
  expect_error(ExitCode::config,
               {"at most 4 stages of the pipeline, as many as the model has", "got 6, 2 on each of 3 devices",
                "write schedule: 1f1b"},
               [] { require_cut({}, kUnits, 6, 3); });
  expect_error(ExitCode::config, {"got 6, 3 on each of 2 devices", "write stages_per_device: 2"},
               [] { require_cut({}, kUnits, 6, 2); });
}

TEST(PipelineCut, TheSlowestStageIsAsFastAsItCanBe) {
  EXPECT_EQ(text_of(cut_by_cost(units_of({1, 1, 1, 1}), {.stages = 2})), "0-2 2-4");
  EXPECT_EQ(text_of(cut_by_cost(units_of({5, 1, 1, 1}), {.stages = 2})), "0-1 1-4");
  EXPECT_EQ(text_of(cut_by_cost(units_of({2, 2, 1, 3, 3}), {.stages = 3})), "0-2 2-4 4-5");
  EXPECT_EQ(text_of(cut_by_cost(units_of({3, 1}), {.stages = 2})), "0-1 1-2");
}

TEST(PipelineCut, AStageFitsInTheLimitOfMemory) {
  std::vector<UnitCost> units = units_of({1, 1, 1, 1});
  for (UnitCost& unit : units) unit.fixed_bytes = 100;
  units[0].fixed_bytes = 300;
  const PipelineStep step{.stages = 2, .micro_batches = 4};
  EXPECT_EQ(text_of(cut_by_cost(units, step)), "0-2 2-4");
  EXPECT_EQ(text_of(cut_by_cost(units, step, 400)), "0-2 2-4");
  EXPECT_EQ(text_of(cut_by_cost(units, step, 399)), "0-1 1-4");
  EXPECT_EQ(text_of(cut_by_cost(units, step, 200)), "0-1 1-4") << "nothing fits: the smallest";
}

TEST(PipelineCut, ActivationsCountAsOftenAsAScheduleHoldsThem) {
  std::vector<UnitCost> units = units_of({1, 1, 1, 1});
  for (UnitCost& unit : units) unit.kept_bytes = 10;
  PipelineStep step{.schedule = PipelineSchedule::one_forward_one_back, .stages = 2, .micro_batches = 8};
  // With 1f1b the first stage holds two micro-batches, the second one.
  EXPECT_EQ(text_of(cut_by_cost(units, step, 40)), "0-2 2-4");
  EXPECT_EQ(text_of(cut_by_cost(units, step, 30)), "0-1 1-4");
  step.schedule = PipelineSchedule::gpipe;
  EXPECT_EQ(text_of(cut_by_cost(units, step, 160)), "0-2 2-4");
  units[0].most_bytes = 1;
  EXPECT_EQ(text_of(cut_by_cost(units, step, 160)), "0-2 2-4") << "nothing fits";
}

TEST(PipelineCut, WhatWaitsForGradientsOfWeightsCountsAsWell) {
  std::vector<UnitCost> units = units_of({1, 1, 1, 1});
  for (UnitCost& unit : units) {
    unit.kept_bytes = 10;
    unit.kept_for_weights_bytes = 25;
  }
  // The first stage holds two micro-batches. On the second stage, two micro-batches wait for their gradients of
  // weights.
  const PipelineStep step{.schedule = PipelineSchedule::zero_bubble, .stages = 2, .micro_batches = 8};
  EXPECT_EQ(text_of(cut_by_cost(units, step, 100)), "0-2 2-4");
  EXPECT_EQ(text_of(cut_by_cost(units, step, 99)), "0-3 3-4");
}

}  // namespace pipeline_cut_test
}  // namespace dptrain::parallel
