#include "train/epoch_table.h"

#include <gtest/gtest.h>

#include "support/process.h"

namespace dptrain::train {
namespace {

constexpr int kWide = 200;

Pass pass(double mean_loss, int64_t correct, int64_t samples, double seconds) {
  return {.score = {.outputs = {{.loss_sum = mean_loss * static_cast<double>(samples),
                                 .correct = correct,
                                 .counted = samples}},
                    .samples = samples},
          .seconds = seconds};
}

EpochMetrics third_epoch() {
  EpochMetrics metrics;
  metrics.epoch = 3;
  metrics.train = pass(0.73984, 1528, 2000, 0.154);
  metrics.test = pass(0.19471, 375, 400, 0.01);
  return metrics;
}

/// The table's header and the row below it.
std::string table(const EpochMetrics& metrics, int64_t epochs, int width) {
  const EpochTable shown(epochs, width, metrics.validation.has_value());
  return shown.header() + "\n" + shown.row(metrics) + "\n";
}

TEST(EpochTable, HasLossesAccuraciesAndSpeed) {
  EXPECT_EQ(table(third_epoch(), 10, kWide),
            "  epoch  train loss  accuracy  test loss  accuracy    seconds   samples/s\n"
            "   3/10      0.7398   76.40 %     0.1947   93.75 %       0.15      12,987\n");
}

TEST(EpochTable, LeavesOutWhatTellsLeastWhereItIsTooWide) {
  EXPECT_EQ(table(third_epoch(), 10, 60),
            "  epoch  train loss  accuracy  test loss  accuracy\n"
            "   3/10      0.7398   76.40 %     0.1947   93.75 %\n");
  EXPECT_EQ(table(third_epoch(), 10, 49),
            "  epoch  train loss  test loss  accuracy\n"
            "   3/10      0.7398     0.1947   93.75 %\n");
  EXPECT_EQ(table(third_epoch(), 10, 5), "  epoch  train loss\n   3/10      0.7398\n");
}

TEST(EpochTable, KeepsItsLinesToTheWidth) {
  for (const int64_t epochs : {0, 1, 999, 100000})
    for (int width = 30; width < 90; ++width) {
      EpochMetrics metrics = third_epoch();
      if (width % 2 == 0) metrics.validation = metrics.test;
      metrics.epoch = epochs;
      metrics.train = pass(1e9, 2000, 2000, 0.154);
      const auto lines = testing::lines_of(table(metrics, epochs, width));
      ASSERT_EQ(lines.size(), 2u);
      EXPECT_EQ(lines[0].size(), lines[1].size()) << lines[0] << "\n" << lines[1];
      EXPECT_LE(lines[0].size(), static_cast<size_t>(width)) << lines[0];
    }
}

TEST(EpochTable, HasTheValidationBeforeTheTest) {
  EpochMetrics metrics = third_epoch();
  metrics.validation = pass(0.18125, 190, 200, 0.01);
  EXPECT_EQ(table(metrics, 10, kWide),
            "  epoch  train loss  accuracy  valid. loss  accuracy  test loss  accuracy    seconds   samples/s\n"
            "   3/10      0.7398   76.40 %       0.1812   95.00 %     0.1947   93.75 %       0.15      12,987\n");
  EXPECT_EQ(table(metrics, 10, 45),
            "  epoch  train loss  valid. loss  accuracy\n"
            "   3/10      0.7398       0.1812   95.00 %\n");
}

TEST(EpochTable, ShowsWhereNothingWasEvaluated) {
  EpochMetrics metrics = third_epoch();
  metrics.test.reset();
  EXPECT_EQ(EpochTable(0, kWide).row(metrics),
            "      3      0.7398   76.40 %          -         -       0.15      12,987");
}

}  // namespace
}  // namespace dptrain::train
