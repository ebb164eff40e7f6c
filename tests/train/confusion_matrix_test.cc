#include "train/confusion_matrix.h"

#include <gtest/gtest.h>

namespace dptrain::train {
namespace {

/// Three classes, the last one without samples. Of five cats four are predicted as cats and one as an owl; of three
/// dogs one is predicted as a dog and two as cats.
ConfusionMatrix cats_and_dogs() {
  ConfusionMatrix matrix(3);
  for (int i = 0; i < 4; ++i) matrix.count(0, 0);
  matrix.count(0, 2);
  matrix.count(1, 1);
  for (int i = 0; i < 2; ++i) matrix.count(1, 0);
  return matrix;
}

TEST(ConfusionMatrix, TellsOfEachClass) {
  const ConfusionMatrix matrix = cats_and_dogs();
  EXPECT_EQ(matrix.all(), 8);
  EXPECT_DOUBLE_EQ(matrix.accuracy(), 5.0 / 8);
  EXPECT_EQ(matrix.samples(0), 5);
  EXPECT_EQ(matrix.predicted(0), 6);
  EXPECT_DOUBLE_EQ(*matrix.recall(0), 4.0 / 5);
  EXPECT_DOUBLE_EQ(*matrix.precision(0), 4.0 / 6);
  EXPECT_DOUBLE_EQ(*matrix.recall(1), 1.0 / 3);
  EXPECT_DOUBLE_EQ(*matrix.precision(1), 1);
  EXPECT_EQ(matrix.mistaken_for(0), 2);
  EXPECT_EQ(matrix.mistaken_for(1), 0);
}

TEST(ConfusionMatrix, KnowsNothingOfAClassWithoutSamples) {
  const ConfusionMatrix matrix = cats_and_dogs();
  EXPECT_FALSE(matrix.recall(2));
  EXPECT_EQ(matrix.precision(2), 0) << "an owl was seen, and was none";
  EXPECT_FALSE(matrix.mistaken_for(2));
  EXPECT_EQ(ConfusionMatrix(2).accuracy(), 0);
  EXPECT_FALSE(ConfusionMatrix(2).precision(1));
}

TEST(ConfusionMatrix, OfEqualMistakesTheFirstIsTold) {
  ConfusionMatrix matrix(4);
  for (const int predicted : {3, 1, 3, 1}) matrix.count(2, predicted);
  EXPECT_EQ(matrix.mistaken_for(2), 1);
}

TEST(ConfusionMatrix, ItsTableHasTheNamesOfClasses) {
  EXPECT_EQ(text_table(table_of(cats_and_dogs(), {"cat", "dog", "owl"}), 80),
            "class  samples  recall %  precision %  mostly mistaken for\n"
            "cat          5     80.00        66.67  owl (1)\n"
            "dog          3     33.33       100.00  cat (2)\n"
            "owl          0         -         0.00  -\n");
  EXPECT_EQ(table_of(cats_and_dogs(), {})[0].cells, (std::vector<std::string>{"0", "1", "2"}));
}

}  // namespace
}  // namespace dptrain::train
