#pragma once

#include <memory>

#include "models/model_registry.h"

namespace dptrain::models {

struct BertOptions {
  int64_t vocabulary = 8000;
  int64_t hidden = 256;  ///< a multiple of heads
  int64_t layers = 8;
  int64_t heads = 8;
  int64_t sequence = 163;  ///< the most tokens of a sample
  float dropout = 0.1f;
};

/// BERT with masked-language-model and next-sentence heads (Devlin et al., "BERT", NAACL 2019). The input is tokens i32
/// [N, S] and the context's text. The outputs are the logits [M, vocabulary] of the predicted rows, decoded with the
/// word embeddings, and the logits [N, 2] of the next-sentence head. Names, shapes and first values are those of
/// Hugging Face's BertForPreTraining; the inner width of a layer is 4 * hidden. Throws 78 for data that isn't text, and
/// for text with another vocabulary or a longer sequence.
std::unique_ptr<nn::Model> build_bert(const BertOptions& options, const ModelInput& input);

/// Reads vocab, hidden, layers, heads, seq and dropout.
ModelSpec read_bert(ConfigReader& options);

}  // namespace dptrain::models
