#pragma once

#include <memory>

#include "data/next_sentence_pairs.h"
#include "data/synthetic_text.h"
#include "models/bert.h"
#include "models/model_registry.h"

namespace dptrain::parallel {

inline constexpr models::TextSizes kText = {.vocabulary = 60, .sequence = 24};

/// Pairs of short lines, so that samples are padded.
inline Datasets sentences(int64_t samples) {
  const auto lines = std::make_shared<const TokenizedLines>(make_synthetic_text(
      {.seed = 3, .lines = 2 * samples + 6, .vocabulary = kText.vocabulary, .sequence = kText.sequence - 6}));
  SentencePairsOptions options{.sequence = kText.sequence, .seed = 3, .test_fraction = 0.5, .limit = samples};
  Datasets pairs;
  pairs.train = std::make_shared<SentencePairs>(lines, options);
  options.split = DatasetSplit::test;
  pairs.test = std::make_shared<SentencePairs>(lines, options);
  return pairs;
}

/// A BERT of 16 hidden units, for kText.
inline models::ModelSpec small_bert(int64_t layers, float dropout) {
  const models::BertOptions sizes{.vocabulary = kText.vocabulary,
                                  .hidden = 16,
                                  .layers = layers,
                                  .heads = 2,
                                  .sequence = kText.sequence,
                                  .dropout = dropout};
  return {.name = "bert", .build = [sizes](const nn::LayerOptions&, const models::ModelInput& input) {
            return models::build_bert(sizes, input);
          }};
}

}  // namespace dptrain::parallel
