// Under batch_norm: local and first, the first device's running statistics are used in evaluations and saved. Without
// samples that device never changes them. So a configuration that gives it no samples is refused, instead of training
// to a wrong accuracy.
#include "train/first_statistics.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/process.h"
#include "train/experiment_of.h"

namespace dptrain::train {
namespace {

using Overrides = std::vector<std::string>;

constexpr const char* kBatchNorms =
    "model={layers: [conv: {channels: 4, kernel: 3, stride: 2}, batch_norm, relu, flatten, linear: classes]}";

void require(Overrides overrides, const char* model = kBatchNorms) {
  overrides.insert(overrides.begin(), model);
  const Experiment experiment = experiment_of(overrides);
  require_first_samples(experiment, *experiment.dataset.open().train);
}

TEST(FirstStatistics, AreRefusedWhereTheFirstDeviceHasNoSamples) {
  for (const char* strategy : {"ddp", "data_parallel", "kvstore"})
    for (const char* mode : {"local", "first"})
      for (const Overrides& split : {Overrides{"split=[0, 1]"}, Overrides{"split=[0.1, 0.9]", "batch_size=8"},
                                     Overrides{"split=[0.3, 0.7]", "batch_size=6", "accumulate=2"}}) {
        SCOPED_TRACE(std::string(strategy) + ", " + mode + ", " + split.front());
        Overrides overrides = {std::string("strategy=") + strategy, std::string("batch_norm=") + mode};
        overrides.insert(overrides.end(), split.begin(), split.end());
        testing::expect_error(ExitCode::config,
                              {std::string("batch_norm: ") + mode, "the first device", "got none of the ",
                               "; give it more weight in split, or write batch_norm: average"},
                              [&] { require(overrides); });
      }
  testing::expect_error(ExitCode::config, {"none of the 3 samples", "fewer devices"}, [] {
    require({"dataset.samples=3", "devices=cpu:0-3"});
  });
}

TEST(FirstStatistics, AreRefusedWhereTheFirstShardHasNoSamples) {
  const Overrides shards = {"dataset.samples=64", "batch_size=64", "accumulate=16", "shards=8"};
  EXPECT_NO_THROW(require(shards)) << "a mean of all shards' evaluates";
  Overrides first = shards;
  first.emplace_back("batch_norm=first");
  testing::expect_error(ExitCode::config, {"the first shard", "none of the 4 samples", "accumulate less"},
                        [&] { require(first); });
  first.emplace_back("accumulate=8");
  EXPECT_NO_THROW(require(first));
}

TEST(FirstStatistics, OtherSplitsAreTrained) {
  const std::string nothing = "split=[0, 1]";
  EXPECT_NO_THROW(require({nothing}, "model=lenet")) << "no batch norms";
  for (const char* mode : {"batch_norm=sync", "batch_norm=average"}) EXPECT_NO_THROW(require({nothing, mode})) << mode;
  for (const char* split : {"split=even", "split=auto", "split=[1, 0]", "split=[0.1, 0.9]"})
    EXPECT_NO_THROW(require({split})) << split;
  for (const char* strategy : {"single", "model_parallel", "auto"})
    EXPECT_NO_THROW(require(
        {std::string("strategy=") + strategy, strategy == std::string("single") ? "devices=cpu:0" : "devices=cpu:0-1"}))
        << strategy;
}

/// One sample per step is enough for the statistics to change.
TEST(FirstStatistics, ChangeWhereTheFirstDeviceHasSamples) {
  const Experiment experiment = experiment_of({kBatchNorms, "split=[0.1, 0.9]", "epochs=1"});
  const Datasets data = experiment.dataset.open();
  require_first_samples(experiment, *data.train);
  Trainer trainer(experiment, data);
  const testing::ScratchFolder folder;
  RunDirectory directory(folder.path(), EarlierRun::overwrite);
  RecordingObserver observer;
  StopSignal stop = 0;
  trainer.run(directory, observer, stop);
  EXPECT_EQ(observer.epochs.at(0).devices.at(0).samples, 1 + 1 + 0);
  int64_t variances = 0;
  for (const auto& tensor : trainer.state_dict()) {
    if (tensor.name.find("running_var") == std::string::npos) continue;
    for (const float variance : tensor.values) EXPECT_NE(variance, 1.0F) << tensor.name;
    ++variances;
  }
  EXPECT_EQ(variances, 1);
}

}  // namespace
}  // namespace dptrain::train
