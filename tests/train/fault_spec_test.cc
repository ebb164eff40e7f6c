#include "train/fault_spec.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace dptrain::train {
namespace {

using parallel::InjectedFault;
using testing::expect_error;
using Kind = InjectedFault::Kind;

TEST(FaultSpec, IsReadAndToldInFull) {
  const std::vector<std::pair<std::string, std::string>> sentences = {
      {"kill:rank=1,step=37", "rank 1 (cpu:1) is killed before step 37"},
      {"stop:rank=0,step=4", "rank 1 (cpu:1) is stopped before step 4"},
      {"stop:rank=0,step=4,seconds=2.5", "rank 1 (cpu:1) is stopped for 2.5 s before step 4"},
      {"hang:rank=2,step=1", "rank 1 (cpu:1) hangs before step 1"},
      {"memory:rank=0,step=9", "rank 1 (cpu:1) runs out of memory before step 9"},
      {"slow:rank=1,step=1,ms=20", "rank 1 (cpu:1) is late by 20 ms in every step"},
      {"slow:rank=1,step=3,ms=0.5", "rank 1 (cpu:1) is late by 0.5 ms in every step from 3 on"},
      {"slow:rank=1,step=3,ms=5,steps=10", "rank 1 (cpu:1) is late by 5 ms in steps 3 to 12"},
      {"flip:rank=1,step=7,parameter=conv1.weight",
       "rank 1 (cpu:1) has a wrong bit in a weight of conv1.weight from the end of step 7 on"},
      {"nan:rank=1,step=7", "rank 1 (cpu:1) has NaN in a weight from the end of step 7 on"}};
  for (const auto& [text, sentence] : sentences) {
    EXPECT_EQ(fault_text(read_fault(text)), text);
    EXPECT_EQ(fault_sentence(read_fault(text), "rank 1 (cpu:1)"), sentence);
  }
}

TEST(FaultSpec, KeysHaveDefaultsAndAnyOrder) {
  EXPECT_EQ(fault_text(read_fault("kill:step=5")), "kill:rank=0,step=5");
  EXPECT_EQ(fault_text(read_fault("slow:ms=5,rank=3")), "slow:rank=3,step=1,ms=5");
  EXPECT_DOUBLE_EQ(read_fault("slow:ms=5").seconds, 0.005);
}

TEST(FaultSpec, MistakesAreToldWithWhatToWrite) {
  const std::vector<std::pair<std::string, std::string_view>> mistakes = {
      {"",
       "--fault: expected a kind of fault and its keys, got ''; choose one of: kill, stop, hang, memory, slow, "
       "flip, nan"},
      {"kil:step=1", "got 'kil:step=1'; did you mean 'kill'?"},
      {"kill", "--fault kill: expected step=, got none; write for instance --fault kill:rank=1,step=37"},
      {"kill:", "expected one of rank, step for kill, got ''"},
      {"kill:rank=1", "expected step=, got none"},
      {"kill:rank=1,step=0", "expected step as an integer from 1 to 1000000000, got 0"},
      {"kill:rank=-1,step=1", "expected rank as an integer from 0 to 65535, got -1"},
      {"kill:rank=1,step=3x", "got 3x"},
      {"kill:rank=1,step=", "got nothing"},
      {"kill:rank=1,step=1,step=2", "expected step once, got 'step=2' again"},
      {"kill:rank=1,step=1,ms=5", "expected one of rank, step for kill, got 'ms'"},
      {"kill:rank=1,step=1,", "got ''"},
      {"slow:rank=1,step=1", "expected ms=, got none; write for instance --fault slow:rank=1,ms=20"},
      {"slow:ms=nan", "expected ms as a number from 0.001 to 86400000, got nan"},
      {"flip:step=1,parameter=", "expected parameter as a name, got nothing"},
      {"stop:step=1,seconds=0", "expected seconds as a number from 0.1 to 86400, got 0"}};
  for (const auto& [text, words] : mistakes) {
    SCOPED_TRACE(text);
    expect_error(ExitCode::usage, {words}, [&text = text] { read_fault(text); });
  }
}

TEST(FaultSpec, IsOfARankThatIsThere) {
  const std::vector<InjectedFault> faults = {read_fault("kill:rank=1,step=5")};
  require_ranks(faults, 2, false);
  expect_error(ExitCode::usage, {"--fault kill:rank=1,step=5: expected rank=0, the only one, got 1"},
               [&] { require_ranks(faults, 1, false); });
  expect_error(ExitCode::usage, {"expected a rank from 0 to 1, got 2"},
               [] { require_ranks({read_fault("hang:rank=2,step=5")}, 2, false); });
  expect_error(ExitCode::usage, {"--fault hang:rank=0,step=5: expected other ranks"},
               [] { require_ranks({read_fault("hang:step=5")}, 1, false); });
}

TEST(FaultSpec, WhoStopsForEverIsMissedByOthers) {
  require_ranks({read_fault("stop:step=5")}, 2, true);
  require_ranks({read_fault("stop:step=5,seconds=2")}, 1, false);
  expect_error(ExitCode::usage,
               {"--fault stop:rank=0,step=5: expected seconds, or other processes, which notice that it is stopped"},
               [] { require_ranks({read_fault("stop:step=5")}, 2, false); });
}

}  // namespace
}  // namespace dptrain::train
