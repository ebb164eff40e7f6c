// Reports kinds of communicators that this machine can't test, or only with fewer ranks.
#include "comm/communicator_fixture.h"

namespace dptrain {
namespace {

class AbsentKinds : public ::testing::TestWithParam<CommunicatorKind> {};

TEST_P(AbsentKinds, AreSkipped) {
  if (!GetParam().absence.empty()) GTEST_SKIP() << GetParam().absence;
  GTEST_SKIP() << "each rank needs " << GetParam().needs << ", of which there are " << GetParam().most_ranks;
}

std::vector<CommunicatorKind> absent_kinds() {
  std::vector<CommunicatorKind> kinds = communicator_kinds();
  std::erase_if(
      kinds, [](const CommunicatorKind& kind) { return kind.absence.empty() && kind.most_ranks >= kMostTestedRanks; });
  return kinds;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AbsentKinds);
INSTANTIATE_TEST_SUITE_P(Kinds, AbsentKinds, ::testing::ValuesIn(absent_kinds()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace dptrain
