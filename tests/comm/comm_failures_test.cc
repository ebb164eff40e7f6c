// Ranks that disagree, stay away or fail: every rank ends in time, with the same message.
#include <fmt/format.h>

#include <atomic>
#include <chrono>

#include "base/clock.h"
#include "comm/communicator_fixture.h"

namespace dptrain {
namespace {

class CommFailuresTest : public CommunicatorTest {
 protected:
  Values<float> floats(int64_t count) const {
    return values<float>(count, [](int64_t i) { return i; });
  }

  /// Runs `last` on the last rank and `others` on the other ranks. Returns the outcome that they all have.
  Outcome disagreement(const RankFunction& others, const RankFunction& last) const {
    auto ranks = make();
    const Outcome outcome =
        common_failure(ranks, [&](Communicator& comm) { (comm.rank() == size() - 1 ? last : others)(comm); });
    EXPECT_EQ(outcome.code, ExitCode::ranks_disagree) << outcome.text;
    return outcome;
  }

  /// Expects `text` to be "rank <a> called <call> as <n>, but rank <b> called <other call>", in the order of arrival,
  /// where the last rank called `last` and another rank called `others`.
  void expect_names_both(const std::string& text, const std::string& as, const std::string& others,
                         const std::string& last) const {
    const std::string last_rank = "rank " + std::to_string(size() - 1);
    bool found = false;
    for (int r = 0; r + 1 < size(); ++r) {
      const std::string rank = "rank " + std::to_string(r);
      found |= text == last_rank + " called " + last + " as " + as + ", but " + rank + " called " + others;
      found |= text == rank + " called " + others + " as " + as + ", but " + last_rank + " called " + last;
    }
    EXPECT_TRUE(found) << text;
  }

  /// Whether `text` ends in "for rank 3", or in the ranks of that rank's process.
  bool names_missing(const std::string& text, int rank) const {
    const int each = std::max(1, kind().ranks_of_process), first = rank / each * each;
    std::vector<int> of_process;
    for (int r = first; r < std::min(first + each, size()); ++r) of_process.push_back(r);
    return text.ends_with(" for " + rank_names({rank})) || text.ends_with(" for " + rank_names(of_process));
  }

  void all_reduce(Communicator& comm, int64_t count) const {
    Values<float> values = floats(count);
    comm.all_reduce(buffer_of(values));
  }

  /// Every call that waits for other ranks, as a rank makes it while `peer` makes none.
  std::vector<std::pair<std::string, RankFunction>> waiting_calls(int peer) const {
    const auto with = [this](int64_t in, int64_t out, auto call) {
      return [this, in, out, call](Communicator& comm) {
        Values<float> a = floats(in), b = floats(out);
        call(comm, buffer_of(a), buffer_of(b));
      };
    };
    const int n = size();
    using B = const CommBuffer&;
    return {
        {"all_reduce", with(8, 0, [](Communicator& c, B a, B) { c.all_reduce(a); })},
        {"all_reduce", with(8, 0, [](Communicator& c, B a, B) { c.start_all_reduce(a)->wait(); })},
        {"reduce", with(8, 0, [peer](Communicator& c, B a, B) { c.reduce(a, peer); })},
        {"reduce", with(8, 0, [peer](Communicator& c, B a, B) { c.start_reduce(a, peer)->wait(); })},
        {"broadcast", with(8, 0, [peer](Communicator& c, B a, B) { c.broadcast(a, peer); })},
        {"reduce_scatter", with(8 * n, 8, [](Communicator& c, B a, B b) { c.reduce_scatter(a, b); })},
        {"all_gather", with(8, 8 * n, [](Communicator& c, B a, B b) { c.all_gather(a, b); })},
        {"gather", with(8, 8 * n, [peer](Communicator& c, B a, B b) { c.gather(a, b, peer); })},
        {"scatter", with(8 * n, 8, [peer](Communicator& c, B a, B b) { c.scatter(a, b, peer); })},
        {"send", with(8, 0, [peer](Communicator& c, B a, B) { c.send(a, peer); })},
        {"receive", with(8, 0, [peer](Communicator& c, B a, B) { c.receive(a, peer); })},
        {"barrier", [](Communicator& c) { c.barrier(); }},
    };
  }
};

TEST_P(CommFailuresTest, OtherSizesAreNamedOnAllRanks) {
  const Outcome outcome = disagreement(
      [&](Communicator& comm) {
        comm.barrier();
        all_reduce(comm, 256);
      },
      [&](Communicator& comm) {
        comm.barrier();
        all_reduce(comm, 128);
      });
  expect_names_both(outcome.text, "collective #2", "all_reduce f32[256]", "all_reduce f32[128]");
}

TEST_P(CommFailuresTest, OtherCallsAreNamedOnAllRanks) {
  Outcome outcome =
      disagreement([&](Communicator& comm) { all_reduce(comm, 8); }, [](Communicator& comm) { comm.barrier(); });
  expect_names_both(outcome.text, "collective #1", "all_reduce f32[8]", "barrier");

  outcome = disagreement([&](Communicator& comm) { all_reduce(comm, 8); },
                         [&](Communicator& comm) {
                           Values<float> values = floats(8);
                           comm.broadcast(buffer_of(values), 0);
                         });
  expect_names_both(outcome.text, "collective #1", "all_reduce f32[8]", "broadcast f32[8] from root 0");
}

TEST_P(CommFailuresTest, OtherDtypesAndRootsAreNamedOnAllRanks) {
  Outcome outcome = disagreement([&](Communicator& comm) { all_reduce(comm, 8); },
                                 [&](Communicator& comm) {
                                   Values<int32_t> mine = values<int32_t>(8, [](int64_t i) { return i; });
                                   comm.all_reduce(buffer_of(mine));
                                 });
  expect_names_both(outcome.text, "collective #1", "all_reduce f32[8]", "all_reduce i32[8]");

  const auto reduce_to = [&](int root) {
    return [this, root](Communicator& comm) {
      Values<float> mine = floats(8);
      comm.reduce(buffer_of(mine), root);
    };
  };
  outcome = disagreement(reduce_to(0), reduce_to(1));
  expect_names_both(outcome.text, "collective #1", "reduce f32[8] to root 0", "reduce f32[8] to root 1");
}

TEST_P(CommFailuresTest, PartsThatDontAddUpAreNamedOnAllRanks) {
  auto ranks = make();
  const auto gather = [&](Communicator& comm) {
    Values<float> part = floats(comm.rank()), all = floats(100);
    comm.gather(buffer_of(part), buffer_of(all), 0);
  };
  std::string parts = "0";
  for (int r = 1; r < size(); ++r) parts += " + " + std::to_string(r);
  EXPECT_EQ(common_failure(ranks, gather),
            (Outcome{ExitCode::ranks_disagree,
                     "rank 0 called gather f32[0] to root 0 as collective #1 with f32[100] for all "
                     "parts, but the parts have " +
                         parts + " elements"}));
}

TEST_P(CommFailuresTest, MessagesOfOtherSizesAreNamedOnBothEnds) {
  auto ranks = make();
  const Outcome outcome = common_failure(ranks, [&](Communicator& comm) {
    Values<float> message = floats(comm.rank() == 0 ? 8 : 9);
    if (comm.rank() == 0) comm.send(buffer_of(message), 1);
    if (comm.rank() == 1) comm.receive(buffer_of(message), 0);
    if (comm.rank() > 1) comm.barrier();
  });
  EXPECT_EQ(outcome.code, ExitCode::ranks_disagree);
  const std::string as = " as message #1 from rank 0 to rank 1, but ";
  EXPECT_TRUE(outcome.text == "rank 0 called send f32[8]" + as + "rank 1 called receive f32[9]" ||
              outcome.text == "rank 1 called receive f32[9]" + as + "rank 0 called send f32[8]")
      << outcome.text;
}

TEST_P(CommFailuresTest, ARankThatStaysAwayIsNamedInTime) {
  for (const auto& [name, call] : waiting_calls(size() - 1)) {
    // Processes first exchange the sizes, and wait in that exchange.
    if (kind().ranks_of_process > 0 && (name == "gather" || name == "scatter")) continue;
    const double soon_s = kind().soon_s;
    // Where each call takes seconds, one collective and the messages represent all calls.
    if (soon_s > 1 && name != "all_reduce" && name != "send" && name != "receive") continue;
    auto ranks = make(soon_s);
    const Clock::time_point start = Clock::now();
    const auto outcomes = outcomes_of(ranks, [&](Communicator& comm) {
      if (comm.rank() == 0) call(comm);
    });
    EXPECT_GE(seconds_since(start), soon_s);
    EXPECT_LT(seconds_since(start), soon_s + 10);
    // In a process with several ranks, a call waits for that process's ranks first.
    const bool is_message = name == "send" || name == "receive";
    const int end = kind().ranks_of_process > 1 ? std::min(kind().ranks_of_process, size()) : size();
    std::vector<int> missing;
    for (int r = is_message ? size() - 1 : 1; r < (is_message ? size() : end); ++r) missing.push_back(r);
    const int elements = name == "reduce_scatter" ? 8 * size() : 8;
    const std::string payload =
        name == "barrier" ? "" : " f32[" + std::to_string(elements) + "] (" + std::to_string(4 * elements) + " bytes)";
    const std::string sentence =
        fmt::format("rank 0 waited {:g} s in {} #1{} for {}", soon_s, name, payload, rank_names(missing));
    const Outcome expected{ExitCode::peer_lost, sentence};
    EXPECT_EQ(outcomes[0], expected);
    // Later calls end with the same error.
    EXPECT_EQ(common_failure(ranks, [&](Communicator& comm) { all_reduce(comm, 8); }), expected);
  }
}

TEST_P(CommFailuresTest, AbortReachesEveryWait) {
  for (const auto& [name, call] : waiting_calls(size() - 1)) {
    auto ranks = make();
    const auto outcomes = outcomes_of(ranks, [&](Communicator& comm) {
      if (comm.rank() == size() - 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        comm.abort("the disk of " + name + " is full");
        comm.abort("a consequence");
      }
      call(comm);
    });
    // The last rank itself may have made a wrong call (a message to itself); the other ranks report the cause.
    for (int r = 0; r + 1 < size(); ++r) {
      EXPECT_EQ(outcomes[r], (Outcome{ExitCode::peer_lost, "the disk of " + name + " is full"})) << name;
    }
  }
}

TEST_P(CommFailuresTest, AbortEndsWorkThatIsWaitedForLater) {
  auto ranks = make();
  const Outcome outcome = common_failure(ranks, [&](Communicator& comm) {
    Values<float> values = floats(1000);
    const auto work = comm.start_all_reduce(buffer_of(values));
    comm.barrier();
    if (comm.rank() == 0) comm.abort("enough");
    work->wait();
    work->wait();
    comm.barrier();
  });
  EXPECT_EQ(outcome, (Outcome{ExitCode::peer_lost, "enough"}));
}

TEST_P(CommFailuresTest, ARankThatThrowsTakesItsStartedWorkBack) {
  auto ranks = make();
  const Clock::time_point start = Clock::now();
  const auto outcomes = outcomes_of(ranks, [&](Communicator& comm) {
    try {
      Values<float> values = floats(1000);
      const auto work = comm.start_all_reduce(buffer_of(values));
      if (comm.rank() == 0) throw Error(ExitCode::diverged, "the loss is nan");
      work->wait();
    } catch (const Error& error) {
      comm.abort(error.what());
      throw;
    }
  });
  EXPECT_LT(seconds_since(start), 30) << "it must not sit out the deadline";
  EXPECT_EQ(outcomes[0], (Outcome{ExitCode::diverged, "the loss is nan"}));
  // All other ranks may have arrived before the throw; then the all-reduce succeeds for them.
  for (int r = 1; r < size(); ++r) {
    if (outcomes[r].code == ExitCode::ok) continue;
    EXPECT_EQ(outcomes[r], (Outcome{ExitCode::peer_lost, "the loss is nan"}));
  }
}

/// Tests of kinds whose started collectives can be canceled.
class StartedAloneFailuresTest : public CommFailuresTest {};

TEST_P(StartedAloneFailuresTest, WorkThatWasTakenBackStaysMissing) {
  if (kind().ranks_of_process == 1) GTEST_SKIP() << "a rank alone in its process has nobody to wait for there";
  auto ranks = make(/*timeout_s=*/0.02);
  std::atomic<bool> gone = false;
  const auto outcomes = outcomes_of(ranks, [&](Communicator& comm) {
    Values<float> values = floats(8);
    if (comm.rank() != 0) {
      while (!gone) std::this_thread::yield();
      comm.all_reduce(buffer_of(values));
      return;
    }
    try {
      const auto work = comm.start_all_reduce(buffer_of(values));
      throw std::runtime_error("a failure that nobody is told of");
    } catch (const std::runtime_error&) {
      gone = true;
    }
  });
  EXPECT_EQ(outcomes[0], Outcome{});
  for (int r = 1; r < size(); ++r) {
    EXPECT_EQ(outcomes[r].code, ExitCode::peer_lost);
    EXPECT_TRUE(names_missing(outcomes[r].text, 0)) << outcomes[r].text;
  }
}

TEST_P(CommFailuresTest, CallsThatCantBeRightAreOurBug) {
  const int n = size();
  auto ranks = make();
  Communicator& comm = *ranks[0];
  Values<float> a = floats(8), b = floats(8 * n + 1);
  Values<double> d = values<double>(8 * n, [](int64_t) { return 0; });
  Values<uint8_t> bytes = values<uint8_t>(8, [](int64_t) { return 0; });
  const std::vector<std::function<void()>> calls = {
      [&] { comm.broadcast(buffer_of(a), n); },
      [&] { comm.reduce(buffer_of(a), -1); },
      [&] { comm.send(buffer_of(a), 0); },
      [&] { comm.receive(buffer_of(a), n); },
      [&] { comm.all_reduce(buffer_of(bytes)); },
      [&] { comm.all_reduce({.data = nullptr, .elements = 1}); },
      [&] { comm.all_reduce({.data = a.data(), .elements = -1}); },
      [&] { comm.reduce_scatter(buffer_of(b), buffer_of(a)); },
      [&] { comm.all_gather(buffer_of(a), buffer_of(b)); },
      [&] { comm.all_gather(buffer_of(a), buffer_of(d)); },
      [&] { comm.gather(buffer_of(a), buffer_of(d), 0); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    try {
      calls[i]();
      ADD_FAILURE() << "call " << i << " passed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bug) << error.what();
    }
  }
}

/// GPUs are different: they finish what they were given, and their memory is freed when they are done.
TEST_P(StartedAloneFailuresTest, NobodyTouchesABufferAfterItsRankHasThrown) {
  const int64_t count = 400'000;
  for (int iteration = 0; iteration < 25; ++iteration) {
    auto ranks = make();
    std::atomic<int> touched = 0;
    outcomes_of(ranks, [&](Communicator& comm) {
      Values<float> first = floats(count), second = floats(count);
      try {
        const auto work = comm.start_all_reduce(buffer_of(first));
        if (comm.rank() == iteration % size()) {
          std::this_thread::sleep_for(std::chrono::microseconds(37 * iteration));
          comm.abort("stop");
        }
        comm.all_reduce(buffer_of(second));
        work->wait();
      } catch (const Error&) {
        // By then both buffers belong to this rank again.
        std::ranges::fill(first, -1.0f);
        std::ranges::fill(second, -1.0f);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        const auto is_mine = [](float value) { return value == -1.0f; };
        touched += !std::ranges::all_of(first, is_mine) || !std::ranges::all_of(second, is_mine);
      }
    });
    EXPECT_EQ(touched, 0);
  }
}

// Ranks over NCCL meet in two places: in NCCL's calls and in all other calls. nccl_world_test.cc tests their messages.
DPTRAIN_COMMUNICATORS(kinds_without_nccl(), CommFailuresTest, 2);
DPTRAIN_COMMUNICATORS(kinds_that_start_alone(), StartedAloneFailuresTest, 2);

}  // namespace
}  // namespace dptrain
