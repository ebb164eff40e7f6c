// Jobs with so many processes that these no longer compare each call with all others.
#include "comm/communicator_fixture.h"

namespace dptrain {
namespace {

class ManyProcessesTest : public ::testing::TestWithParam<int> {};

TEST_P(ManyProcessesTest, SumAndMeet) {
  RankList ranks = communicators_of_processes(std::vector<int>(static_cast<size_t>(GetParam()), 1), 60);
  const auto outcomes = outcomes_of(ranks, [](Communicator& comm) {
    Values<float> values(100'000, static_cast<float>(comm.rank()));
    comm.all_reduce(buffer_of(values));
    const auto expected = static_cast<float>(comm.size() * (comm.size() - 1) / 2);
    EXPECT_TRUE(std::ranges::all_of(values, [expected](float value) { return value == expected; }));
    comm.barrier();
  });
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome, Outcome{});
}

TEST_P(ManyProcessesTest, ADisagreementIsToldToAll) {
  RankList ranks = communicators_of_processes(std::vector<int>(static_cast<size_t>(GetParam()), 1), 60);
  const auto outcomes = outcomes_of(ranks, [](Communicator& comm) {
    Values<float> values(comm.rank() == 3 ? 10 : 11, 1.0f);
    comm.all_reduce(buffer_of(values));
    comm.barrier();
  });
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome, outcomes[0]);
  EXPECT_EQ(outcomes[0].code, ExitCode::ranks_disagree);
}

INSTANTIATE_TEST_SUITE_P(Processes, ManyProcessesTest, ::testing::Values(9, 17));

}  // namespace
}  // namespace dptrain
