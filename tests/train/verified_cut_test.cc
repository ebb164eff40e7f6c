#include "train/verified_cut.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dptrain::train {
namespace {

using Counts = std::vector<int>;

TEST(VerifiedCut, IsEvenWhereEveryStageHasAParameter) {
  EXPECT_EQ(verified_cut({true, true, true, true, true}, 1), Counts{5});
  EXPECT_EQ(verified_cut({true, true, true, true, true}, 2), (Counts{2, 3}));
  EXPECT_EQ(verified_cut({true, false, false, true}, 2), (Counts{2, 2}));
  EXPECT_EQ(verified_cut({true, true, true}, 3), (Counts{1, 1, 1}));
}

/// In flatten | linear, linear, no gradient would go back to the first stage.
TEST(VerifiedCut, MovesWhereAStageWouldHaveNone) {
  EXPECT_EQ(verified_cut({false, true, true}, 2), (Counts{2, 1}));
  EXPECT_EQ(verified_cut({false, false, false, true, false, true}, 2), (Counts{5, 1}));
  EXPECT_EQ(verified_cut({true, true, false, false}, 2), (Counts{1, 3}));
  EXPECT_EQ(verified_cut({true, false, false, false, true, true}, 3), (Counts{4, 1, 1}));
}

TEST(VerifiedCut, IsEvenWhereThereAreTooFewParameters) {
  EXPECT_EQ(verified_cut({false, true, false, false}, 2), (Counts{2, 2}));
  EXPECT_EQ(verified_cut({false, false}, 2), (Counts{1, 1}));
}

/// Every stage gets a unit, and one with parameters if there are enough, whatever the model.
TEST(VerifiedCut, HoldsForEverySmallModel) {
  for (int units = 1; units <= 8; ++units)
    for (int bits = 0; bits < 1 << units; ++bits) {
      std::vector<bool> has_parameters;
      for (int unit = 0; unit < units; ++unit) has_parameters.push_back((bits >> unit & 1) != 0);
      const auto with = std::count(has_parameters.begin(), has_parameters.end(), true);
      for (int stages = 1; stages <= units; ++stages) {
        const Counts counts = verified_cut(has_parameters, stages);
        ASSERT_EQ(std::ssize(counts), stages);
        auto begin = has_parameters.begin();
        for (const int count : counts) {
          ASSERT_GT(count, 0);
          if (with >= stages) {
            ASSERT_NE(std::find(begin, begin + count, true), begin + count) << units << " " << bits << " " << stages;
          }
          begin += count;
        }
        ASSERT_EQ(begin, has_parameters.end());
      }
    }
}

}  // namespace
}  // namespace dptrain::train
