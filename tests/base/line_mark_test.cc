// Marks that tell which of several processes wrote a line.
#include "base/line_mark.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

struct LineMarkTest : ::testing::Test {
  ~LineMarkTest() override { mark_lines_as_of_process(0); }
};

TEST_F(LineMarkTest, IsNoneOfAProcessThatIsAloneOrTheFirst) {
  EXPECT_EQ(line_mark(), "");
  mark_lines_as_of_process(2);
  mark_lines_as_of_rank(0);
  EXPECT_EQ(marked_lines("one\ntwo\n"), "one\ntwo\n");
}

TEST_F(LineMarkTest, StandsBeforeEveryLine) {
  mark_lines_as_of_process(3);
  EXPECT_EQ(marked_lines("one\n\ntwo\n"), "[process 3] one\n[process 3] \n[process 3] two\n");
  EXPECT_EQ(marked_lines("without an end"), "[process 3] without an end");
  EXPECT_EQ(marked_lines(""), "");
}

TEST_F(LineMarkTest, IsTheRankOnceThatIsKnown) {
  mark_lines_as_of_process(3);
  mark_lines_as_of_rank(2147483647);
  EXPECT_EQ(line_mark(), "[rank 2147483647] ");
}

}  // namespace
}  // namespace dptrain
