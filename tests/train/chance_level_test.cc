#include "train/chance_level.h"

#include <gtest/gtest.h>

#include "data/synthetic.h"
#include "train/experiment_of.h"

namespace dptrain::train {
namespace {

EpochMetrics with_loss(double loss) {
  EpochMetrics metrics;
  metrics.epoch = 3;
  metrics.step = 60;
  metrics.train.score.outputs = {{.loss_sum = 100 * loss, .correct = 10, .counted = 100}};
  metrics.staleness = parallel::Staleness{.pushes = {1, 1}};
  return metrics;
}

ByteImages images() { return {make_synthetic({.samples = 20, .classes = 10, .image_shape = {1, 4, 4}}), {}}; }

TEST(ChanceLevel, IsToldOfAsynchronousUpdatesThatLearnedNothing) {
  const ByteImages data = images();
  const auto warning_of = [&data](const EpochMetrics& metrics) {
    return ChanceWatch(data).warning_after(metrics, /*is_last=*/true);
  };
  const auto warning = warning_of(with_loss(2.31));
  ASSERT_TRUE(warning);
  for (const char* words : {"epoch 3", "2.310, is at", "2.303 for 10 classes", "0.5 updates old", "max_staleness"})
    EXPECT_NE(warning->find(words), std::string::npos) << *warning;
  EXPECT_FALSE(warning_of(with_loss(2.2))) << "it has learned something";
  EpochMetrics in_step = with_loss(2.31);
  in_step.staleness.reset();
  EXPECT_FALSE(warning_of(in_step)) << "so may be the first steps of a right one";
  for (const auto& [loss, text] : {std::pair(4.0, "4.000, is far above"), {2e9, "2e+09, is far above"}}) {
    EpochMetrics lost = with_loss(loss);
    lost.staleness.reset();
    EpochMetrics first_steps = lost;
    first_steps.step = 40;
    EXPECT_FALSE(warning_of(first_steps));
    const std::string sentence = warning_of(lost).value_or("");
    EXPECT_NE(sentence.find(text), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("lower learning_rate"), std::string::npos) << sentence;
  }
  in_step.staleness = parallel::Staleness{.pushes = {2}};
  EXPECT_NE(warning_of(in_step).value_or("").find("no update was late; choose another learning_rate"),
            std::string::npos);
}

/// With little data an epoch has few steps: the first one may end before anything is learned.
TEST(ChanceLevel, IsToldOnceItStays) {
  const ByteImages data = images();
  ChanceWatch watch(data);
  const auto after = [&watch](double loss) { return watch.warning_after(with_loss(loss), /*is_last=*/false); };
  EXPECT_FALSE(after(2.31));
  EXPECT_NE(after(2.30).value_or("").find("2.300, stays at chance level"), std::string::npos);
  EXPECT_FALSE(after(2.31)) << "once is enough";
  EXPECT_TRUE(ChanceWatch(watch).warning_after(with_loss(2.31), /*is_last=*/true)) << "and at the end";
  EXPECT_FALSE(after(1.9));
  EXPECT_FALSE(after(2.31)) << "one alone";
}

TEST(ChanceLevel, ThatStaysIsToldOfUpdatesInStep) {
  const ByteImages data = images();
  ChanceWatch watch(data);
  EpochMetrics metrics = with_loss(2.31);
  metrics.staleness.reset();
  EXPECT_FALSE(watch.warning_after(metrics, /*is_last=*/false));
  EpochMetrics slow = with_loss(2.27);
  slow.staleness.reset();
  EXPECT_FALSE(ChanceWatch(watch).warning_after(slow, /*is_last=*/false)) << "it has begun to learn";
  const std::string sentence = watch.warning_after(metrics, /*is_last=*/true).value_or("");
  EXPECT_NE(sentence.find("2.310, stays at chance level (2.303 for 10 classes); choose another learning_rate"),
            std::string::npos)
      << sentence;
}

TEST(ChanceLevel, NothingIsToldWhereSmoothingHidesWhatIsLearned) {
  EXPECT_FALSE(ChanceWatch(images(), /*label_smoothing=*/0.9).warning_after(with_loss(2.31), /*is_last=*/true));
  EXPECT_TRUE(ChanceWatch(images(), /*label_smoothing=*/0.1).warning_after(with_loss(2.31), /*is_last=*/true));
}

/// Chance means guessing masked tokens and next sentences.
TEST(ChanceLevel, OfTextIsThatOfItsVocabularyAndOfTwoSentences) {
  const Experiment experiment =
      experiment_of({"model={name: bert, vocab: 80, hidden: 16, layers: 1, heads: 2, seq: 24}",
                     "dataset={name: synthetic, samples: 40, test_samples: 10}"});
  const Datasets data = experiment.dataset.open();
  EpochMetrics metrics = with_loss(4.4);
  metrics.train.score.outputs.push_back({.loss_sum = 70, .correct = 50, .counted = 100});
  const auto warning = ChanceWatch(*data.train).warning_after(metrics, /*is_last=*/true);
  ASSERT_TRUE(warning);
  EXPECT_NE(warning->find("5.100, is at chance level (5.075 for 80 pieces and next sentences)"), std::string::npos)
      << *warning;
  metrics.train.score.outputs[0].loss_sum = 420;
  EXPECT_FALSE(ChanceWatch(*data.train).warning_after(metrics, /*is_last=*/true)) << "it has learned something";
}

}  // namespace
}  // namespace dptrain::train
