// How far the host is ahead of the devices: by the number of steps in `steps_in_flight`. Only at the end of an epoch
// does the host wait for all steps.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>

#include "autograd/flatten.h"
#include "nn/layers.h"
#include "support/process.h"
#include "train/experiment_of.h"
#include "train/wrapped_strategy.h"

namespace dptrain::train {
namespace {

/// An epoch has three steps: 40 samples in batches of 16.
constexpr int64_t kStepsOfEpoch = 3, kEpochs = 2;

/// The host's calls to a strategy, in order; the devices wait for them.
class Asked {
 public:
  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(what);
    if (what == "step") ++steps_;
    changed_.notify_all();
  }
  /// Blocks until the host has asked for this step.
  void wait_for_step(int64_t step) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(30), [&] { return steps_ >= step; }))
      throw std::runtime_error("the host waits, and has not given step " + std::to_string(step));
  }
  std::vector<std::string> calls() const { return calls_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> calls_;
  int64_t steps_ = 0;
};

class WatchedStrategy final : public WrappedStrategy {
 public:
  WatchedStrategy(std::unique_ptr<Strategy> inner, Asked& asked) : WrappedStrategy(std::move(inner)), asked_(asked) {}

  void train_step(std::shared_ptr<const Batch> batch, const parallel::StepNumbers& numbers) override {
    asked_.add("step");
    WrappedStrategy::train_step(std::move(batch), numbers);
  }
  std::vector<parallel::Score> take_scores(bool all) override {
    if (all) asked_.add("all scores");
    return WrappedStrategy::take_scores(all);
  }
  std::optional<parallel::Score> evaluate(const Dataset& dataset, const parallel::EvaluationWatch& watch) override {
    asked_.add("evaluation");
    return WrappedStrategy::evaluate(dataset, watch);
  }
  std::vector<nn::NamedValues> state_dict() override {
    asked_.add("weights");
    return WrappedStrategy::state_dict();
  }
  parallel::TrainingState training_state() override {
    asked_.add("state");
    return WrappedStrategy::training_state();
  }
  parallel::RankCosts take_costs(int rank) override {
    asked_.add("costs");
    return WrappedStrategy::take_costs(rank);
  }

 private:
  Asked& asked_;
};

/// A layer whose step n ends only when the host has asked for the last step that may be in flight beside it.
class HostIsAhead final : public nn::Module {
 public:
  HostIsAhead(int64_t pixels, int64_t classes, Asked& asked, int in_flight)
      : fc_(add_child<nn::Linear>("fc", pixels, classes)), asked_(asked), in_flight_(in_flight) {}

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    if (context.training) {
      const int64_t epochs_end = step_ / kStepsOfEpoch * kStepsOfEpoch + kStepsOfEpoch;
      ++step_;
      asked_.wait_for_step(std::min(step_ + in_flight_ - 1, epochs_end));
    }
    return fc_.forward(autograd::flatten(x), context);
  }

 private:
  nn::Linear& fc_;
  Asked& asked_;
  int in_flight_;
  int64_t step_ = 0;  ///< of this replica
};

/// Parameters: the strategy and steps in flight.
class StepsAheadTest : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(StepsAheadTest, TheHostWaitsAtEndsOfEpochsAndForTheStepsInFlight) {
  const auto& [strategy, in_flight] = GetParam();
  Asked asked;
  Experiment experiment = experiment_of({std::string("strategy=") + strategy, "epochs=" + std::to_string(kEpochs),
                                         "steps_in_flight=" + std::to_string(in_flight)});
  experiment.strategy.make = [&asked, make = experiment.strategy.make](const parallel::StrategyContext& context) {
    return std::make_unique<WatchedStrategy>(make(context), asked);
  };
  experiment.model = {.name = "ahead", .build = [&](const nn::LayerOptions&, const models::ModelInput& input) {
                        auto model = std::make_unique<nn::Model>();
                        model->add_stage(
                            std::make_unique<HostIsAhead>(input.image.elements(), input.classes, asked, in_flight),
                            "ahead.");
                        return model;
                      }};
  const testing::ScratchFolder folder;
  RunDirectory directory(folder.path(), EarlierRun::overwrite);
  RecordingObserver observer;
  StopSignal stop = 0;
  Trainer trainer(experiment, experiment.dataset.open());
  const size_t begun = asked.calls().size();
  trainer.run(directory, observer, stop);

  EXPECT_EQ(observer.epochs.size(), static_cast<size_t>(kEpochs));
  // Within an epoch, steps are the only calls that wait; all scores are taken after its last step.
  const std::vector<std::string> calls = asked.calls();
  int64_t steps = 0;
  for (size_t i = begun; i < calls.size(); ++i) {
    if (calls[i] == "step") ++steps;
    if (steps % kStepsOfEpoch != 0) {
      EXPECT_EQ(calls[i], "step") << "behind step " << steps;
    }
    if (calls[i] == "step" && steps % kStepsOfEpoch == 0) {
      ASSERT_LT(i + 1, calls.size());
      EXPECT_EQ(calls[i + 1], "all scores");
    }
  }
  EXPECT_EQ(steps, kStepsOfEpoch * kEpochs);
}

INSTANTIATE_TEST_SUITE_P(Strategies, StepsAheadTest,
                         ::testing::Combine(::testing::Values("data_parallel", "ddp", "kvstore"),
                                            ::testing::Values(1, 2, 3)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" + std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace dptrain::train
