#include "models/pretraining_head.h"

#include <vector>

#include "autograd/elementwise.h"
#include "autograd/embedding.h"
#include "autograd/flatten.h"
#include "autograd/linear.h"

namespace dptrain::models {
namespace {

/// The logits of each token, decoded with the word embeddings: [M, E] -> [M, V].
class TokenPredictions final : public nn::Module {
 public:
  TokenPredictions(Parameter& words)
      : words_(words),
        bias_(add_parameter("bias", {words.shape()[0]}, nn::Initializer::constant(0))),
        transform_(add_child<nn::Linear>("transform.dense", words.shape()[1], words.shape()[1],
                                         text_linear(nn::LinearOptions::Activation::gelu))),
        norm_(add_child<nn::LayerNorm>("transform.LayerNorm", words.shape()[1], kTextEpsilon)) {
    add_tied("decoder.weight", words_);
    add_tied("decoder.bias", bias_);
  }

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    const Variable transformed = norm_.forward(transform_.forward(x, context), context);
    return autograd::linear(transformed, context.tape.use(words_), context.tape.use(bias_));
  }

 private:
  Parameter& words_;
  Parameter& bias_;
  nn::Linear& transform_;
  nn::LayerNorm& norm_;
};

class PretrainingHead final : public nn::Head {
 public:
  PretrainingHead(Parameter& words, const PretrainingHeadNames& names)
      : pooler_(add_child<nn::Linear>(names.pooler, words.shape()[1], words.shape()[1], text_linear())),
        predictions_(add_child<TokenPredictions>(names.predictions, words)),
        next_sentence_(add_child<nn::Linear>(names.next_sentence, words.shape()[1], 2, text_linear())) {}

  std::vector<Variable> outputs(const Variable& x, const nn::ForwardContext& context) override {
    const nn::TextInputs& text = context.text;
    if (!text.read.defined()) return logits(autograd::rows_of(x, text.firsts), autograd::flatten_rows(x), context);
    const Variable rows = nn::are_read_rows(x.value().shape(), text) ? x : autograd::rows_of(x, text.read);
    const int64_t samples = text.firsts.elements();
    return logits(autograd::samples_of(rows, 0, samples), autograd::samples_of(rows, samples, text.read.elements()),
                  context);
  }

 private:
  std::vector<Variable> logits(const Variable& firsts, const Variable& predicted, const nn::ForwardContext& context) {
    const Variable pooled = autograd::tanh(pooler_.forward(firsts, context));
    return {predictions_.forward(predicted, context), next_sentence_.forward(pooled, context)};
  }

  nn::Linear& pooler_;
  TokenPredictions& predictions_;
  nn::Linear& next_sentence_;
};

}  // namespace

nn::LinearOptions text_linear(nn::LinearOptions::Activation activation) {
  return {.activation = activation,
          .weight = nn::Initializer::normal(kTextDeviation),
          .bias = nn::Initializer::constant(0)};
}

std::unique_ptr<nn::Head> make_pretraining_head(Parameter& words, const PretrainingHeadNames& names) {
  return std::make_unique<PretrainingHead>(words, names);
}

}  // namespace dptrain::models
