// The processes of a job: what they send each other, and how each ends.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "processes/job_training.h"

namespace dptrain::testing {
namespace {

constexpr int kLargestPartBytes = 1 << 30;

class JobTest : public ::testing::Test {
 protected:
  /// The command for tests/processes/job_program.cc.
  static Command act(const std::string& what, double timeout_s = 30, int largest_part_bytes = kLargestPartBytes) {
    return {built_file("job_program"), what, std::to_string(timeout_s), std::to_string(largest_part_bytes)};
  }
  Launched run(size_t count, const Command& command) const { return launch(count, command, folder_.path()); }
  static void expect_all_ended_well(const Launched& launched) {
    EXPECT_EQ(launched.launcher.exit, 0) << launched.launcher.err;
    for (const Finished& process : launched.processes) {
      EXPECT_EQ(process.exit, 0);
      EXPECT_EQ(process.err, "");
    }
  }
  static void expect_sentence(const Finished& process, int code, const std::vector<std::string>& words) {
    EXPECT_EQ(process.exit, code) << process.err;
    EXPECT_EQ(lines_of(process.err).size(), 1u) << process.err;
    EXPECT_TRUE(process.err.starts_with("dptrain: ")) << process.err;
    for (const auto& word : words)
      EXPECT_NE(process.err.find(word), std::string::npos) << "no '" << word << "' in: " << process.err;
  }

  ScratchFolder folder_;
};

TEST_F(JobTest, MessagesOfAnyLengthComeAsTheyWereSentAndInOrder) {
  DPTRAIN_NEEDS_MPI();
  const Launched launched = run(2, act("messages"));
  expect_all_ended_well(launched);
  for (const Finished& process : launched.processes) EXPECT_EQ(process.out, "carried\n");
}

TEST_F(JobTest, MessagesLongerThanMpiCanCountStayWhole) {
  DPTRAIN_NEEDS_MPI();
  const Launched launched = run(3, act("messages", 30, 999));
  expect_all_ended_well(launched);
  for (const Finished& process : launched.processes) EXPECT_EQ(process.out, "carried\n");
}

TEST_F(JobTest, EveryProcessKnowsTheHostAndNumberOfAll) {
  DPTRAIN_NEEDS_MPI();
  const Launched launched = run(4, act("list"));
  expect_all_ended_well(launched);
  std::array<char, 256> host = {};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  std::vector<std::string> expected(4);
  for (const Finished& process : launched.processes) {
    std::istringstream own(process.out);
    std::string word, pid;
    size_t number = 4;
    own >> word >> number >> pid;
    ASSERT_LT(number, 4u);
    expected[number] = std::string(host.data()) + " " + pid;
  }
  for (const Finished& process : launched.processes) {
    auto lines = lines_of(process.out);
    lines.erase(lines.begin());
    EXPECT_EQ(lines, expected);
  }
}

TEST_F(JobTest, AMessageThatIsLongerThanExpectedEndsTheReceiver) {
  DPTRAIN_NEEDS_MPI();
  expect_sentence(run(2, act("too_long")).processes[0], 76,
                  {"tag 5", "process 1 (host ", "10 bytes at most", "got more"});
}

TEST_F(JobTest, AProcessThatNeverJoinsEndsTheOthers) {
  DPTRAIN_NEEDS_MPI();
  const Launched launched =
      Launch({.processes = {act("list", 2), {"/bin/sleep", "100"}}, .folder = folder_.path()}).wait();
  EXPECT_EQ(launched.launcher.exit, 69);
  expect_sentence(launched.processes[0], 69,
                  {"did not all join within 2 s: process 1 is missing; ", "DPTRAIN_JOIN_TIMEOUT"});
}

TEST_F(JobTest, HowLongProcessesWaitToJoinIsSaidByAVariable) {
  DPTRAIN_NEEDS_MPI();
  const auto started = [this](const std::string& seconds) {
    const Command waits = {"/usr/bin/env", "DPTRAIN_JOIN_TIMEOUT=" + seconds, dptrain_binary(), "--config",
                           "lenet_1cpu"};
    return Launch({.processes = {waits, {"/bin/sleep", "100"}}, .folder = folder_.path()}).wait();
  };
  expect_sentence(started("1").processes[0], 69, {"did not all join within 1 s"});
  expect_sentence(started("soon").processes[0], 64, {"DPTRAIN_JOIN_TIMEOUT", "'soon'"});
}

/// Of three processes of dptrain, those in `missing` never join the job.
class MissingProcessTest : public JobTrainingTest, public ::testing::WithParamInterface<std::vector<size_t>> {};

TEST_P(MissingProcessTest, IsNamedByAllThatAreThere) {
  const std::vector<size_t>& missing = GetParam();
  std::vector<Command> processes(3, training("job", "lenet_ddp_2cpu", 1, {}));
  for (Command& command : processes) command.insert(command.begin(), {"/usr/bin/env", "DPTRAIN_JOIN_TIMEOUT=2"});
  for (const size_t process : missing) processes[process] = {"/bin/sleep", "100"};
  Launch launch({.processes = processes, .folder = folder_.path(), .grace_s = 2});
  std::vector<size_t> there;
  for (const size_t process : {0u, 1u, 2u})
    if (std::ranges::find(missing, process) == missing.end()) there.push_back(process);
  launch.wait_for_ends(there, 10);
  const Launched launched = launch.wait();
  const std::string sentence = fmt::format(
      "the processes of the job did not all join within 2 s: {} missing; see what the launcher says about the others, "
      "or set DPTRAIN_JOIN_TIMEOUT to more seconds",
      missing.size() == 1 ? fmt::format("process {} is", missing[0])
                          : fmt::format("processes {} are", fmt::join(missing, ", ")));
  for (const size_t process : there) {
    EXPECT_EQ(launched.processes[process].exit, 69);
    EXPECT_EQ(launched.processes[process].err, "dptrain: " + sentence + "\n");
  }
  const json fault = expect_unbegun_fault(run("job"), 69, sentence);
  EXPECT_EQ(fault["rank"], there[0] == 0 ? json(0) : json());
  EXPECT_EQ(fault["root"]["pid"], launch.pid(there[0]));
  EXPECT_EQ(fault["ring"], json::array());
}

INSTANTIATE_TEST_SUITE_P(Processes, MissingProcessTest,
                         ::testing::Values(std::vector<size_t>{2}, std::vector<size_t>{0}, std::vector<size_t>{1, 2}));

TEST_F(JobTest, TheEndWaitsForAll) {
  DPTRAIN_NEEDS_MPI();
  const Launched launched = run(2, act("late"));
  expect_all_ended_well(launched);
  EXPECT_EQ(launched.processes[0].out, "after\n");
}

TEST_F(JobTest, TheEndNamesTheProcessThatDoesNotCome) {
  DPTRAIN_NEEDS_MPI();
  const Launched launched = run(3, act("never"));
  EXPECT_EQ(launched.launcher.exit, 75);
  // Any process may be the first to report it; the launcher then ends the others.
  const auto said = std::ranges::find(launched.processes, 75, &Finished::exit);
  ASSERT_NE(said, launched.processes.end());
  const bool first = said == launched.processes.begin();
  expect_sentence(*said, 75, {first ? "process 1 (host " : "process 0 (host ", "the end of the job", "within 0.3 s"});
}

TEST_F(JobTest, LeavingWaitsForNobody) {
  DPTRAIN_NEEDS_MPI();
  const Launched launched = run(2, act("give_up"));
  EXPECT_EQ(launched.launcher.exit, 75);
  EXPECT_TRUE(std::ranges::any_of(launched.processes,
                                  [](const Finished& one) { return one.exit == 75 && one.out == "leaving\n"; }));
}

}  // namespace
}  // namespace dptrain::testing
