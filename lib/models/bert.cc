#include "models/bert.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "autograd/attention.h"
#include "autograd/elementwise.h"
#include "autograd/embedding.h"
#include "autograd/flatten.h"
#include "autograd/linear.h"
#include "base/error.h"

namespace dptrain::models {
namespace {

constexpr float kEpsilon = 1e-12f;
constexpr double kDeviation = 0.02;
const nn::LinearOptions kDense = {.weight = nn::Initializer::normal(kDeviation), .bias = nn::Initializer::constant(0)};

/// The layers of dropout are numbered: 0 the embeddings', then so many of each encoder layer.
constexpr uint32_t kDropoutsOfLayer = 3;

/// LayerNorm of the sum of a token's embedding, its place's and its segment's.
class Embeddings final : public nn::Module {
 public:
  explicit Embeddings(const BertOptions& o)
      : words_(add_child<nn::Embedding>("word_embeddings", o.vocabulary, o.hidden,
                                        nn::Initializer::embedding(kDeviation), kPadding)),
        places_(
            add_child<nn::Embedding>("position_embeddings", o.sequence, o.hidden, nn::Initializer::normal(kDeviation))),
        segments_(add_child<nn::Embedding>("token_type_embeddings", 2, o.hidden, nn::Initializer::normal(kDeviation))),
        norm_(add_child<nn::LayerNorm>("LayerNorm", o.hidden, kEpsilon)),
        dropout_(add_child<nn::Dropout>("dropout", o.dropout, 0)) {}

  Parameter& words() { return words_.weight(); }

  Variable forward(const Variable& tokens, const nn::ForwardContext& context) override {
    const Variable words = words_.forward(tokens.value(), context);
    const Variable places = places_.forward(context.text.positions, context);
    const Variable segments = segments_.forward(context.text.segments, context);
    return dropout_.forward(norm_.forward(words, autograd::add(places, segments), context), context);
  }

 private:
  static constexpr int32_t kPadding = 0;

  nn::Embedding& words_;
  nn::Embedding& places_;
  nn::Embedding& segments_;
  nn::LayerNorm& norm_;
  nn::Dropout& dropout_;
};

/// x + dropout(attention(x)), normalized; then y + dropout(dense(gelu(dense(y)))), normalized. The last layer gives
/// those rows alone that the head reads: in training about a sixth.
class EncoderLayer final : public nn::Module {
 public:
  EncoderLayer(const BertOptions& o, uint32_t first_dropout, bool last)
      : query_(add_child<nn::Linear>("attention.self.query", o.hidden, o.hidden, kDense)),
        key_(add_child<nn::Linear>("attention.self.key", o.hidden, o.hidden, kDense)),
        value_(add_child<nn::Linear>("attention.self.value", o.hidden, o.hidden, kDense)),
        mixed_(add_child<nn::Linear>("attention.output.dense", o.hidden, o.hidden, kDense)),
        attention_norm_(add_child<nn::LayerNorm>("attention.output.LayerNorm", o.hidden, kEpsilon)),
        inner_(add_child<nn::Linear>("intermediate.dense", o.hidden, 4 * o.hidden, kDense)),
        output_(add_child<nn::Linear>("output.dense", 4 * o.hidden, o.hidden, kDense)),
        output_norm_(add_child<nn::LayerNorm>("output.LayerNorm", o.hidden, kEpsilon)),
        attention_dropout_(add_child<nn::Dropout>("attention.output.dropout", o.dropout, first_dropout + 1)),
        output_dropout_(add_child<nn::Dropout>("output.dropout", o.dropout, first_dropout + 2)),
        heads_(o.heads),
        dropout_(o.dropout),
        first_dropout_(first_dropout),
        last_(last) {}

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    const Variable attended = autograd::attention({.query = query_.forward(x, context),
                                                   .key = key_.forward(x, context),
                                                   .value = value_.forward(x, context),
                                                   .lengths = context.text.lengths},
                                                  attention_options(context));
    const Tensor rows = last_ ? context.text.read : Tensor();
    if (!rows.defined()) return after_attention(attended, x, rows, context);
    return after_attention(autograd::rows_of(attended, rows), autograd::rows_of(x, rows), rows, context);
  }

 private:
  /// Of all rows, or of these.
  Variable after_attention(const Variable& attended, const Variable& x, const Tensor& rows,
                           const nn::ForwardContext& context) {
    const auto dropped = [&](nn::Dropout& dropout, const Variable& z) {
      return rows.defined() ? dropout.forward_rows(z, rows, context) : dropout.forward(z, context);
    };
    const Variable y =
        attention_norm_.forward(dropped(attention_dropout_, mixed_.forward(attended, context)), x, context);
    const Variable inner = autograd::gelu(inner_.forward(y, context));
    return output_norm_.forward(dropped(output_dropout_, output_.forward(inner, context)), y, context);
  }

  ops::AttentionOptions attention_options(const nn::ForwardContext& context) const {
    if (!context.training || dropout_ == 0.f) return {.heads = heads_};
    return {
        .heads = heads_,
        .dropout = dropout_,
        .key = {
            .seed = context.seed, .layer = first_dropout_, .epoch = context.epoch, .sample_ids = context.sample_ids}};
  }

  nn::Linear& query_;
  nn::Linear& key_;
  nn::Linear& value_;
  nn::Linear& mixed_;
  nn::LayerNorm& attention_norm_;
  nn::Linear& inner_;
  nn::Linear& output_;
  nn::LayerNorm& output_norm_;
  nn::Dropout& attention_dropout_;
  nn::Dropout& output_dropout_;
  int64_t heads_;
  float dropout_;
  uint32_t first_dropout_;
  bool last_;
};

/// The logits of a token, by the word embeddings: [M, E] -> [M, vocabulary].
class TokenPredictions final : public nn::Module {
 public:
  TokenPredictions(const BertOptions& o, Parameter& words)
      : words_(words),
        bias_(add_parameter("bias", {o.vocabulary}, nn::Initializer::constant(0))),
        transform_(add_child<nn::Linear>("transform.dense", o.hidden, o.hidden, kDense)),
        norm_(add_child<nn::LayerNorm>("transform.LayerNorm", o.hidden, kEpsilon)) {
    add_tied("decoder.weight", words_);
    add_tied("decoder.bias", bias_);
  }

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    const Variable transformed = norm_.forward(autograd::gelu(transform_.forward(x, context)), context);
    return autograd::linear(transformed, context.tape.use(words_), context.tape.use(bias_));
  }

 private:
  Parameter& words_;
  Parameter& bias_;
  nn::Linear& transform_;
  nn::LayerNorm& norm_;
};

/// What is learned before any task: masked tokens, and whether the second sentence follows the first.
class PretrainingHead final : public nn::Head {
 public:
  PretrainingHead(const BertOptions& o, Parameter& words)
      : pooler_(add_child<nn::Linear>("bert.pooler.dense", o.hidden, o.hidden, kDense)),
        predictions_(add_child<TokenPredictions>("cls.predictions", o, words)),
        next_sentence_(add_child<nn::Linear>("cls.seq_relationship", o.hidden, 2, kDense)) {}

  std::vector<Variable> outputs(const Variable& x, const nn::ForwardContext& context) override {
    const nn::TextInputs& text = context.text;
    const int64_t samples = text.firsts.elements();
    if (!text.read.defined()) return logits(autograd::rows_of(x, text.firsts), autograd::flatten_rows(x), context);
    return logits(autograd::samples_of(x, 0, samples), autograd::samples_of(x, samples, text.read.elements()), context);
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

void require_fitting_text(const BertOptions& options, const ModelInput& input) {
  const auto refuse = [&](std::string expected, std::string got, std::string advice) {
    throw Error(ExitCode::config, Mistake{input.where, std::move(expected), std::move(got), std::move(advice)});
  };
  if (!input.text) refuse("needs a data set of text", "images", "write dataset: text, or dataset: synthetic");
  if (input.text->vocabulary != options.vocabulary)
    refuse(fmt::format("needs a text of {} tokens", options.vocabulary), fmt::format("{}", input.text->vocabulary),
           "give model and data set the same vocabulary");
  if (input.text->sequence > options.sequence)
    refuse(fmt::format("takes at most {} tokens a sample", options.sequence), fmt::format("{}", input.text->sequence),
           "give the model a larger seq, or the data set a smaller sequence");
}

}  // namespace

std::unique_ptr<nn::Model> build_bert(const BertOptions& options, const ModelInput& input) {
  require_fitting_text(options, input);
  auto model = std::make_unique<nn::Model>();
  auto embeddings = std::make_unique<Embeddings>(options);
  Parameter& words = embeddings->words();
  model->add_stage(std::move(embeddings), "bert.embeddings.");
  for (int64_t layer = 0; layer < options.layers; ++layer)
    model->add_stage(std::make_unique<EncoderLayer>(options, 1 + kDropoutsOfLayer * static_cast<uint32_t>(layer),
                                                    layer + 1 == options.layers),
                     fmt::format("bert.encoder.layer.{}.", layer));
  model->set_head(std::make_unique<PretrainingHead>(options, words));
  return model;
}

ModelSpec read_bert(ConfigReader& config) {
  BertOptions options;
  options.vocabulary = config.integer(
      "vocab", options.vocabulary, {.min = 6, .max = 65536, .help = "tokens of the vocabulary, special ones included"});
  options.hidden = config.integer("hidden", options.hidden, {.min = 1, .max = 16384, .help = "width of a token"});
  options.layers = config.integer("layers", options.layers, {.min = 1, .max = 1000, .help = "encoder layers"});
  options.heads = config.integer("heads", options.heads, {.min = 1, .max = 1024, .help = "of attention"});
  options.sequence =
      config.integer("seq", options.sequence, {.min = 5, .max = 65536, .help = "the most tokens of a sample"});
  options.dropout = static_cast<float>(
      config.number("dropout", 0.1, {.min = 0, .max = 0.999, .help = "of hidden states and attention"}));
  if (!config.describing() && options.hidden % options.heads != 0)
    config.mistake("heads", fmt::format("expected a divisor of hidden, {}", options.hidden),
                   fmt::format("{}", options.heads), "choose another number of heads");
  return {.name = "bert",
          .build = [options](const nn::LayerOptions&, const ModelInput& input) { return build_bert(options, input); },
          .text = TextSizes{.vocabulary = options.vocabulary, .sequence = options.sequence}};
}

}  // namespace dptrain::models
