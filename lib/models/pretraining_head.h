#pragma once

#include <memory>
#include <string>

#include "nn/layers.h"

namespace dptrain::models {

/// BERT's numbers: how weights begin, N(0, 0.02^2), biases at 0, and what layer norms add to the variance.
inline constexpr double kTextDeviation = 0.02;
inline constexpr float kTextEpsilon = 1e-12f;
nn::LinearOptions text_linear(nn::LinearOptions::Activation activation = {});

/// What a pretraining head's layers are called; those of `predictions` have names of their own behind it.
struct PretrainingHeadNames {
  std::string pooler;
  std::string predictions;
  std::string next_sentence;
};

/// What BERT learns before any task (Devlin et al., 2019): the masked tokens, and whether the second sentence follows
/// the first. [N, S, E], or the rows [N + M, E] that the context's text reads of it, -> logits [M, V] of the M
/// predicted tokens, by the words' embedding as decoder, and [N, 2]. `words`: [V, E], of another piece of the model,
/// which outlives the head.
std::unique_ptr<nn::Head> make_pretraining_head(Parameter& words, const PretrainingHeadNames& names);

}  // namespace dptrain::models
