// Ranks go from one step to the next without waiting for the host. An error in a step reaches the caller and names the
// step.
#include "parallel/steps_under_way.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "base/error.h"
#include "parallel/digits.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace steps_under_way_test {

/// An event that one thread waits for and another signals; the wait has a deadline.
class Event {
 public:
  void happen() {
    const std::lock_guard lock(mutex_);
    happened_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(30), [&] { return happened_; }))
      throw std::runtime_error("what was waited for didn't happen");
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool happened_ = false;
};

RankTeam::Options workers(int ranks) {
  RankTeam::Options options{.devices = {}, .threads = std::vector<int>(static_cast<size_t>(ranks), 1), .timeout_s = 30};
  for (int i = 0; i < ranks; ++i) options.devices.push_back({DeviceKind::cpu, i});
  return options;
}

TEST(StepsUnderWay, ARankBeginsTheNextStepBeforeOthersAreDoneWithTheLast) {
  RankTeam team(workers(2));
  StepsUnderWay steps(team, 2);
  Event first_rank_is_ahead;
  steps.give({.step = 1}, [&](int rank) {
    if (rank == 1) first_rank_is_ahead.wait();
  });
  steps.give({.step = 2}, [&](int rank) {
    if (rank == 0) first_rank_is_ahead.happen();
  });
  EXPECT_NO_THROW(team.run("finish", [](int) {}));
}

TEST(StepsUnderWay, WithOneAStepIsDoneWhenItHasBeenGiven) {
  RankTeam team(workers(3));
  StepsUnderWay steps(team, 1);
  std::atomic<int> done = 0;
  for (int step = 1; step <= 20; ++step) {
    steps.give({.step = step}, [&](int) { ++done; });
    ASSERT_EQ(done, 3 * step);
  }
}

TEST(StepsUnderWay, TheHostIsNoFurtherAheadThanThat) {
  RankTeam team(workers(2));
  for (const int most : {2, 3}) {
    StepsUnderWay steps(team, most);
    std::atomic<int> done = 0;
    for (int step = 1; step <= 20; ++step) {
      steps.give({.step = step}, [&](int) { ++done; });
      ASSERT_GE(done, 2 * (step - most + 1));
    }
    team.finish();
    EXPECT_EQ(done, 40);
  }
}

TEST(StepsUnderWay, AFailureNamesItsStepAndNoLaterOneIsBegun) {
  RankTeam team(workers(2));
  StepsUnderWay steps(team, 2);
  Event given;
  bool later = false;
  steps.give({.step = 7}, [&](int rank) {
    given.wait();
    if (rank == 1) throw Error(ExitCode::device, "out of memory");
    team.communicator(rank).barrier();
  });
  std::string thrown;
  try {
    given.happen();
    steps.give({.step = 8}, [&](int) { later = true; });
  } catch (const Error& error) {
    thrown = error.what();
  }
  EXPECT_EQ(thrown, "rank 1 (cpu:1), step 7: out of memory");
  team.finish();
  EXPECT_FALSE(later);
}

/// Parameter: the strategy. The host submits several steps ahead.
class StepsInFlight : public ::testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<Strategy> strategy_with(int steps_in_flight) {
    const std::string name = GetParam();
    StrategyOptions options{.name = name, .devices = name == "single" ? 1 : 2};
    options.pipeline.micro_batches = 2;
    if (name == "hybrid") {
      options.devices = 4;
      options.pipeline.replicas = 2;
    }
    StrategyContext context = context_of(options);
    context.replica.steps_in_flight = steps_in_flight;
    return make_strategy(options, context);
  }
};

TEST_P(StepsInFlight, EndInTheSameBits) {
  const auto data = digits(100, 10);
  std::vector<double> losses;
  State weights;
  for (const int in_flight : {1, 2, 4}) {
    const auto strategy = strategy_with(in_flight);
    const auto of_run = train(*strategy, data, 10, 10, 0.1, 2);
    ASSERT_EQ(of_run.size(), 10u);
    if (in_flight == 1) {
      losses = of_run;
      weights = strategy->state_dict();
    }
    EXPECT_EQ(of_run, losses);
    expect_same_bits(strategy->state_dict(), weights);
  }
}

TEST_P(StepsInFlight, AStrategyMayEndWhileTheyAre) {
  const auto data = digits(40, 10);
  const auto strategy = strategy_with(4);
  BatchLoader loader(
      data.train,
      {.batch_size = 10, .micro_batches = 2, .devices = strategy->batch_devices(), .split = strategy->batch_split()});
  loader.start_epoch(1);
  for (int step = 1; step <= 4; ++step)
    strategy->train_step(loader.next(), {.step = step, .epoch = 1, .learning_rate = 0.1});
}

INSTANTIATE_TEST_SUITE_P(Strategies, StepsInFlight,
                         ::testing::Values("single", "data_parallel", "parallel_criterion", "ddp", "ddp_sharded",
                                           "fsdp", "kvstore", "kvstore_local", "kvstore_dist_sync", "model_parallel",
                                           "hybrid", "local_sgd"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace steps_under_way_test
}  // namespace dptrain::parallel
