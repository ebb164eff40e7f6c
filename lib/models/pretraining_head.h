#pragma once

#include <memory>
#include <string>

#include "nn/layers.h"

namespace dptrain::models {

/// BERT's constants: weights begin as N(0, 0.02^2) and biases at 0; layer norms add kTextEpsilon to the variance.
inline constexpr double kTextDeviation = 0.02;
inline constexpr float kTextEpsilon = 1e-12f;
nn::LinearOptions text_linear(nn::LinearOptions::Activation activation = {});

/// The names of a pretraining head's layers. The parts of `predictions` append names of their own.
struct PretrainingHeadNames {
  std::string pooler;
  std::string predictions;
  std::string next_sentence;
};

/// Makes BERT's pretraining head (Devlin et al., 2019), which predicts masked tokens and whether the second sentence
/// follows the first. It takes [N, S, E], or only the rows that the context's text reads, [N + M, E]. It returns the
/// logits [M, V] of the M predicted tokens, decoded with the word embeddings, and the logits [N, 2]. `words` is [V, E];
/// it belongs to another piece of the model, which must outlive the head.
std::unique_ptr<nn::Head> make_pretraining_head(Parameter& words, const PretrainingHeadNames& names);

}  // namespace dptrain::models
