#include "models/bert.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "autograd/elementwise.h"
#include "autograd/embedding.h"
#include "models/pretraining_head.h"
#include "models/self_attention.h"

namespace dptrain::models {
namespace {

/// Dropout layers are numbered: 0 is that of the embeddings, then each encoder layer has this many.
constexpr uint32_t kDropoutsOfLayer = 3;

/// LayerNorm of the sum of the token's embedding, its position's and its segment's.
class Embeddings final : public nn::Module {
 public:
  explicit Embeddings(const BertOptions& o)
      : words_(add_child<nn::Embedding>("word_embeddings", o.vocabulary, o.hidden,
                                        nn::Initializer::embedding(kTextDeviation), kPadding)),
        places_(add_child<nn::Embedding>("position_embeddings", o.sequence, o.hidden,
                                         nn::Initializer::normal(kTextDeviation))),
        segments_(
            add_child<nn::Embedding>("token_type_embeddings", 2, o.hidden, nn::Initializer::normal(kTextDeviation))),
        norm_(add_child<nn::LayerNorm>("LayerNorm", o.hidden, kTextEpsilon)),
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

/// x + dropout(attention(x)), normalized; then y + dropout(dense(gelu(dense(y)))), normalized. The last layer returns
/// only the rows that the head reads: in training about a sixth.
class EncoderLayer final : public nn::Module {
 public:
  EncoderLayer(const BertOptions& o, uint32_t first_dropout, bool last)
      : attention_(add_child<SelfAttention>(
            "attention",
            SelfAttentionOptions{.width = o.hidden,
                                 .heads = o.heads,
                                 .dropout = o.dropout,
                                 .dropout_layer = first_dropout,
                                 .linear = text_linear()},
            SelfAttentionNames{
                .query = "self.query", .key = "self.key", .value = "self.value", .output = "output.dense"})),
        attention_norm_(add_child<nn::LayerNorm>("attention.output.LayerNorm", o.hidden, kTextEpsilon)),
        inner_(add_child<nn::Linear>("intermediate.dense", o.hidden, 4 * o.hidden,
                                     text_linear(nn::LinearOptions::Activation::gelu))),
        output_(add_child<nn::Linear>("output.dense", 4 * o.hidden, o.hidden, text_linear())),
        output_norm_(add_child<nn::LayerNorm>("output.LayerNorm", o.hidden, kTextEpsilon)),
        attention_dropout_(add_child<nn::Dropout>("attention.output.dropout", o.dropout, first_dropout + 1)),
        output_dropout_(add_child<nn::Dropout>("output.dropout", o.dropout, first_dropout + 2)) {
    if (last) attention_.make_read_rows_alone();
  }

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    const Variable attended = attention_.forward(x, context);
    const Variable y =
        attention_norm_.forward(attended, attention_dropout_, rows_beside(attended, x, context), context);
    const Variable inner = inner_.forward(y, context);
    return output_norm_.forward(output_.forward(inner, context), output_dropout_, y, context);
  }

 private:
  SelfAttention& attention_;
  nn::LayerNorm& attention_norm_;
  nn::Linear& inner_;
  nn::Linear& output_;
  nn::LayerNorm& output_norm_;
  nn::Dropout& attention_dropout_;
  nn::Dropout& output_dropout_;
};

}  // namespace

std::unique_ptr<nn::Model> build_bert(const BertOptions& options, const ModelInput& input) {
  require_text(input.where, {.vocabulary = options.vocabulary, .sequence = options.sequence}, input.text);
  auto model = std::make_unique<nn::Model>();
  auto embeddings = std::make_unique<Embeddings>(options);
  Parameter& words = embeddings->words();
  model->add_stage(std::move(embeddings), "bert.embeddings.");
  for (int64_t layer = 0; layer < options.layers; ++layer)
    model->add_stage(std::make_unique<EncoderLayer>(options, 1 + kDropoutsOfLayer * static_cast<uint32_t>(layer),
                                                    layer + 1 == options.layers),
                     fmt::format("bert.encoder.layer.{}.", layer));
  model->set_head(make_pretraining_head(
      words,
      {.pooler = "bert.pooler.dense", .predictions = "cls.predictions", .next_sentence = "cls.seq_relationship"}));
  return model;
}

ModelSpec read_bert(ConfigReader& config) {
  BertOptions options;
  options.vocabulary = config.integer(
      "vocab", options.vocabulary, {.min = 6, .max = 65536, .help = "tokens of the vocabulary, special ones included"});
  options.hidden = config.integer("hidden", options.hidden, {.min = 1, .max = 16384, .help = "width of a token"});
  options.layers = config.integer("layers", options.layers, {.min = 1, .max = 1000, .help = "encoder layers"});
  options.heads = config.integer("heads", options.heads, {.min = 1, .max = 1024, .help = "attention heads"});
  options.sequence =
      config.integer("seq", options.sequence, {.min = 5, .max = 65536, .help = "the most tokens of a sample"});
  options.dropout = static_cast<float>(config.number(
      "dropout", 0.1, {.min = 0, .max = 0.999, .help = "dropout probability of hidden states and attention"}));
  if (!config.describing() && options.hidden % options.heads != 0)
    config.mistake("heads", fmt::format("expected a divisor of hidden: {}", options.hidden),
                   fmt::format("{}", options.heads), "choose another number of heads");
  return {.name = "bert",
          .build = [options](const nn::LayerOptions&, const ModelInput& input) { return build_bert(options, input); },
          .text = TextSizes{.vocabulary = options.vocabulary, .sequence = options.sequence}};
}

}  // namespace dptrain::models
