#include "train/chance_level.h"

#include <gtest/gtest.h>

#include "data/synthetic.h"
#include "train/experiment_of.h"

namespace dptrain::train {
namespace {

EpochMetrics with_loss(double loss) {
  EpochMetrics metrics;
  metrics.epoch = 3;
  metrics.train.score.outputs = {{.loss_sum = 100 * loss, .correct = 10, .counted = 100}};
  metrics.staleness = parallel::Staleness{.pushes = {1, 1}};
  return metrics;
}

TEST(ChanceLevel, IsToldOfAsynchronousUpdatesThatLearnedNothing) {
  const ByteImages images(make_synthetic({.samples = 20, .classes = 10, .image_shape = {1, 4, 4}}), {});
  const auto warning = chance_warning(with_loss(2.31), images);
  ASSERT_TRUE(warning);
  for (const char* words : {"epoch 3", "2.310", "2.303 for 10 classes", "0.5 behind", "max_staleness"})
    EXPECT_NE(warning->find(words), std::string::npos) << *warning;
  EXPECT_FALSE(chance_warning(with_loss(2.2), images)) << "it has learned something";
  EpochMetrics in_step = with_loss(2.31);
  in_step.staleness.reset();
  EXPECT_FALSE(chance_warning(in_step, images));
  in_step.staleness = parallel::Staleness{.pushes = {2}};
  EXPECT_NE(chance_warning(in_step, images).value_or("").find("no update was behind; choose another learning_rate"),
            std::string::npos);
}

/// Masked tokens and next sentences are guessed.
TEST(ChanceLevel, OfTextIsThatOfItsVocabularyAndOfTwoSentences) {
  const Experiment experiment =
      experiment_of({"model={name: bert, vocab: 80, hidden: 16, layers: 1, heads: 2, seq: 24}",
                     "dataset={name: synthetic, samples: 40, test_samples: 10}"});
  const Datasets data = experiment.dataset.open();
  EpochMetrics metrics = with_loss(4.4);
  metrics.train.score.outputs.push_back({.loss_sum = 70, .correct = 50, .counted = 100});
  const auto warning = chance_warning(metrics, *data.train);
  ASSERT_TRUE(warning);
  EXPECT_NE(warning->find("5.100, is at chance level (5.075 for 80 pieces and next sentences)"), std::string::npos)
      << *warning;
  metrics.train.score.outputs[0].loss_sum = 420;
  EXPECT_FALSE(chance_warning(metrics, *data.train)) << "it has learned something";
}

}  // namespace
}  // namespace dptrain::train
