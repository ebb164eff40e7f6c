// A rank that fails makes all others stop, in time, and the error names it.
#include "parallel/rank_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>

#include "base/clock.h"
#include "base/error.h"
#include "parallel/digits.h"

namespace dptrain::parallel {
namespace rank_team_test {

/// The deadline of every wait for another rank. A reported failure ends the waits long before it.
constexpr double kDeadline_s = 30;

RankTeam::Options team_of(int ranks, double timeout_s = kDeadline_s) {
  RankTeam::Options options{
      .devices = {}, .threads = std::vector<int>(static_cast<size_t>(ranks), 1), .timeout_s = timeout_s};
  for (int i = 0; i < ranks; ++i) options.devices.push_back({DeviceKind::cpu, i + 3});
  return options;
}

/// The error that running `work` on `ranks` ranks throws.
Error failure_of(int ranks, const std::string& what, const std::function<void(RankTeam&, int)>& work,
                 double timeout_s = kDeadline_s) {
  RankTeam team(team_of(ranks, timeout_s));
  try {
    team.run(what, [&](int rank) { work(team, rank); });
  } catch (const Error& error) {
    return error;
  }
  return Error(ExitCode::ok, "nothing was thrown");
}

void wait_for_others(RankTeam& team, int rank) { team.communicator(rank).barrier(); }

TEST(RankTeam, RunsOnEveryRankAndWaitsForAll) {
  for (const int ranks : {1, 2, 3, 8}) {
    RankTeam team(team_of(ranks));
    std::vector<int> rounds(static_cast<size_t>(ranks));
    for (int round = 1; round <= 50; ++round) {
      team.run("count", [&](int rank) { ++rounds[static_cast<size_t>(rank)]; });
      for (const int count : rounds) ASSERT_EQ(count, round);
    }
  }
}

TEST(RankTeam, ADeviceMayStandTwice) {
  RankTeam::Options options = team_of(2);
  options.devices[1] = options.devices[0];
  RankTeam team(options);
  EXPECT_NE(&team.device(0), &team.device(1));
  EXPECT_EQ(team.device(1).rank(), 1);
}

TEST(RankTeam, AFailureIsTheCauseOfAll) {
  for (const int failing : {0, 1, 2}) {
    const auto begun = Clock::now();
    const Error error = failure_of(3, "step 12", [&](RankTeam& team, int rank) {
      if (rank == failing) throw Error(ExitCode::bad_data, "a.gz: label 3: expected 0 to 9, got 11");
      wait_for_others(team, rank);
    });
    EXPECT_LT(seconds_since(begun), kDeadline_s / 2) << "the others waited for their deadline";
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_EQ(std::string(error.what()), "rank " + std::to_string(failing) + " (cpu:" + std::to_string(failing + 3) +
                                             "), step 12: a.gz: label 3: expected 0 to 9, got 11");
  }
}

TEST(RankTeam, AloneADeviceIsNamedWithoutARank) {
  const Error error = failure_of(1, "step 1", [](RankTeam&, int) { throw Error(ExitCode::io, "no"); });
  EXPECT_EQ(std::string(error.what()), "cpu:3, step 1: no");
}

TEST(RankTeam, AMistakeInALineOfAConfigurationIsNoRanks) {
  const auto failure = [](const Error& thrown) {
    const Error error = failure_of(2, "start", [&](RankTeam& team, int rank) {
      if (rank == 1) throw Error(thrown);
      wait_for_others(team, rank);
    });
    EXPECT_EQ(error.code(), ExitCode::config);
    return std::string(error.what());
  };
  const Mistake of_a_line{.where = "a.yaml:3: freeze", .expected = "expected a layer", .got = "none", .advice = {}};
  EXPECT_EQ(failure(Error(ExitCode::config, of_a_line)), "a.yaml:3: freeze: expected a layer, got none");
  EXPECT_EQ(failure(Error(ExitCode::config, "a parameter got no gradient")),
            "rank 1 (cpu:4), start: a parameter got no gradient");
}

TEST(RankTeam, OtherExceptionsBecomeErrors) {
  const Error memory = failure_of(2, "start", [](RankTeam& team, int rank) {
    if (rank == 1) throw std::bad_alloc();
    wait_for_others(team, rank);
  });
  EXPECT_EQ(memory.code(), ExitCode::device);
  EXPECT_NE(std::string(memory.what()).find("rank 1 (cpu:4), start: out of host memory"), std::string::npos);
  const Error other = failure_of(2, "start", [](RankTeam& team, int rank) {
    if (rank == 1) throw std::runtime_error("odd");
    wait_for_others(team, rank);
  });
  EXPECT_EQ(other.code(), ExitCode::bug);
  EXPECT_EQ(std::string(other.what()), "rank 1 (cpu:4), start: odd");
}

TEST(RankTeam, ARankThatStaysAwayIsNamedAfterTheDeadline) {
  const Error error = failure_of(
      3, "step 2",
      [](RankTeam& team, int rank) {
        if (rank != 1) wait_for_others(team, rank);
      },
      0.2);
  EXPECT_EQ(error.code(), ExitCode::peer_lost);
  EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("barrier"), std::string::npos) << error.what();
}

TEST(RankTeam, ComputingLongerThanTheDeadlineIsNoFailure) {
  RankTeam team(team_of(2, 0.05));
  EXPECT_NO_THROW(team.run("slow", [](int) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); }));
}

TEST(RankTeam, IsNotUsedAfterAFailure) {
  RankTeam team(team_of(2));
  EXPECT_THROW(team.run("a", [](int) { throw std::runtime_error("odd"); }), Error);
  EXPECT_THROW(team.run("b", [](int) {}), std::exception);
}

/// Trains under a memory limit until a rank runs out; returns the error.
Error out_of_memory(StrategyOptions options, int64_t limit_bytes) {
  options.memory_limit_bytes = limit_bytes;
  try {
    const auto strategy = make_strategy(options);
    train(*strategy, digits(128, 10), 1, 128, 0.05);
  } catch (const Error& error) {
    return error;
  }
  return Error(ExitCode::ok, "it had enough");
}

TEST(RankTeam, ARankOutOfMemoryIsNamedWithBytes) {
  for (const char* name : {"data_parallel", "ddp"}) {
    SCOPED_TRACE(name);
    const Error start = out_of_memory({.name = name}, 600'000);
    EXPECT_EQ(start.code(), ExitCode::device) << start.what();
    for (const char* word : {"rank ", "(cpu:", "start", "bytes", "gradients", "600000"})
      EXPECT_NE(std::string(start.what()).find(word), std::string::npos) << start.what();
    const Error step = out_of_memory({.name = name}, 1'600'000);
    EXPECT_EQ(step.code(), ExitCode::device) << step.what();
    for (const char* word : {"rank ", "(cpu:", "step 1", " bytes for ", "1600000"})
      EXPECT_NE(std::string(step.what()).find(word), std::string::npos) << step.what();
  }
}

}  // namespace rank_team_test
}  // namespace dptrain::parallel
