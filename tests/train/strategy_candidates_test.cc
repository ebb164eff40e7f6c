// The candidates of `strategy: auto`, by the number of devices and the model.
#include "train/strategy_candidates.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "train/experiment_of.h"

namespace dptrain::train {
namespace {

using Names = std::vector<std::string>;

std::vector<StrategyCandidate> candidates_of(Names overrides) {
  if (std::ranges::none_of(overrides, [](const auto& text) { return text.starts_with("strategy="); }))
    overrides.emplace_back("strategy=auto");
  const Experiment experiment = experiment_of(overrides);
  return strategy_candidates(config_of(overrides), experiment, *experiment.dataset.open().train);
}

Names names_of(const std::vector<StrategyCandidate>& candidates) {
  Names names;
  for (const StrategyCandidate& candidate : candidates) names.push_back(candidate.trial.strategy);
  return names;
}

bool contains(const Names& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

TEST(StrategyCandidates, TwoDevicesAreOfferedEveryStrategyButHybrid) {
  EXPECT_EQ(
      names_of(candidates_of({})),
      (Names{"{name: ddp}", "{name: ddp, bucket_mb: 1}", "{name: ddp, overlap: false}",
             "{name: ddp, shard_optimizer: true}", "{name: fsdp}", "{name: kvstore, type: device, placement: balanced}",
             "{name: data_parallel, criterion: parallel}", "{name: data_parallel, criterion: gathered}",
             "{name: model_parallel, schedule: 1f1b}", "{name: model_parallel, schedule: zero_bubble}"}));
}

/// Two stages per device need four stages; LeNet has three.
TEST(StrategyCandidates, SeveralStagesADeviceNeedAsManyOfTheModel) {
  const std::string four =
      "model={layers: [flatten, linear: 8, relu, linear: 8, relu, linear: 8, relu, linear: classes]}";
  const std::string through_all = "{name: model_parallel, schedule: interleaved}";
  const std::string replicas = "{name: hybrid, model_parallel: 2, schedule: interleaved}";
  EXPECT_FALSE(contains(names_of(candidates_of({})), through_all));
  EXPECT_TRUE(contains(names_of(candidates_of({four})), through_all));
  EXPECT_FALSE(contains(names_of(candidates_of({four})), replicas)) << "on two devices";
  const Names of_four = names_of(candidates_of({four, "devices=cpu:0-3"}));
  EXPECT_FALSE(contains(of_four, through_all));
  EXPECT_TRUE(contains(of_four, replicas));
}

TEST(StrategyCandidates, BucketsThatWouldHoldAllAreThereOnce) {
  // Gradients of 0.2 MB, 4.4 MB and 44.7 MB.
  const auto sizes = [](const std::string& model, const std::string& shape) {
    const Names names = names_of(candidates_of({"model=" + model, "dataset.shape=" + shape}));
    Names found;
    for (const char* mb : {"1", "5", "25"})
      if (contains(names, std::string("{name: ddp, bucket_mb: ") + mb + "}")) found.emplace_back(mb);
    return found;
  };
  EXPECT_EQ(sizes("lenet", "[1, 16, 16]"), (Names{"1"}));
  EXPECT_EQ(sizes("{layers: [flatten, linear: 1024, relu, linear: 800, linear: classes]}", "[1, 16, 16]"),
            (Names{"1", "5"}));
  EXPECT_EQ(sizes("resnet18", "[3, 32, 32]"), (Names{"1", "5", "25"}));
}

TEST(StrategyCandidates, ReplicasOfPipelinesNeedFourDevicesAndAnEvenNumber) {
  for (const std::string schedule : {"1f1b", "zero_bubble"}) {
    const std::string hybrid = "{name: hybrid, model_parallel: 2, schedule: " + schedule + "}";
    for (const auto& [devices, offered] : {std::pair{3, false}, {4, true}, {5, false}, {6, true}})
      EXPECT_EQ(contains(names_of(candidates_of({"devices=cpu:0-" + std::to_string(devices - 1)})), hybrid), offered)
          << devices;
  }
}

TEST(StrategyCandidates, AreThoseThatTheConfigurationLists) {
  const auto listed =
      candidates_of({"strategy={name: auto, candidates: [kvstore, ddp: {bucket_mb: 2, overlap: false}]}"});
  EXPECT_EQ(names_of(listed), (Names{"{name: kvstore}", "{name: ddp, bucket_mb: 2, overlap: false}"}));
  EXPECT_EQ(listed[0].experiment.strategy.name, "kvstore");
  EXPECT_TRUE(listed[0].is_to_be_tried());
}

/// Such a strategy would win because it communicates less.
TEST(StrategyCandidates, DontTryWhatTrainsOtherwise) {
  const auto listed = candidates_of({"strategy={name: auto, candidates: [ddp, local_sgd: {compress: bf16}]}"});
  EXPECT_TRUE(listed[0].is_to_be_tried());
  EXPECT_FALSE(listed[1].is_to_be_tried());
  EXPECT_NE(listed[1].trial.reason.find("averaging the weights every few steps would change the result"),
            std::string::npos)
      << listed[1].trial.reason;
}

TEST(StrategyCandidates, AreReadUnderAllElseThatTheConfigurationSays) {
  const auto split = candidates_of({"split=[1, 3]"});
  EXPECT_EQ(split.front().trial.split, "[1, 3]");
  EXPECT_EQ(split.front().experiment.split.weights->weights(), (std::vector<int64_t>{1'000'000, 3'000'000}));
  EXPECT_EQ(split.back().trial.verdict, TrialVerdict::failed);
  EXPECT_NE(split.back().trial.reason.find("whole batches through its stages"), std::string::npos)
      << split.back().trial.reason;
}

TEST(StrategyCandidates, OneDeviceIsSingle) {
  EXPECT_EQ(names_of(candidates_of({"devices=cpu:0"})), (Names{"{name: single}"}));
  EXPECT_EQ(names_of(candidates_of({"devices=cpu:0", "strategy={name: auto, candidates: [ddp]}"})),
            (Names{"{name: single}"}));
}

}  // namespace
}  // namespace dptrain::train
