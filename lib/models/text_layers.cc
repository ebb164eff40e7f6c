#include "models/text_layers.h"

#include <fmt/format.h>

#include "autograd/elementwise.h"
#include "models/layer_initializer.h"
#include "models/pretraining_head.h"
#include "models/self_attention.h"

namespace dptrain::models {
namespace {

/// Sizes of data sets of text, if neither the data set nor the model sets others.
constexpr TextSizes kDataSets = {.vocabulary = 8000, .sequence = 128};
constexpr int64_t kSegments = 2;
constexpr int32_t kPadding = 0;
constexpr const char* kOwnWeights = "as BERT's: {normal: 0.02}";

struct EmbeddingOptions {
  int64_t features = 0;
  std::optional<int64_t> vocabulary = {};  ///< by default the data set's; likewise `sequence`
  std::optional<int64_t> sequence = {};
  bool positions = true;
  bool segments = true;
  nn::Initializer weight = nn::Initializer::normal(kTextDeviation);

  TextSizes sizes(const TextSizes& of_data) const {
    return {.vocabulary = vocabulary.value_or(of_data.vocabulary), .sequence = sequence.value_or(of_data.sequence)};
  }
};

/// Row 0, that of padding, begins as zeros and stays so: looking it up writes no gradient to it.
nn::Initializer with_padding(const nn::Initializer& weight) {
  return weight.kind == nn::Initializer::Kind::normal ? nn::Initializer::embedding(weight.value) : weight;
}

/// A token's vector, plus the vectors of its position and its segment.
class SumOfEmbeddings final : public nn::Module {
 public:
  SumOfEmbeddings(const EmbeddingOptions& o, const TextSizes& text)
      : words_(add_child<nn::Embedding>("words", text.vocabulary, o.features, with_padding(o.weight), kPadding)),
        positions_(o.positions ? &add_child<nn::Embedding>("positions", text.sequence, o.features, o.weight) : nullptr),
        segments_(o.segments ? &add_child<nn::Embedding>("segments", kSegments, o.features, o.weight) : nullptr) {}

  Parameter& words() { return words_.weight(); }

  Variable forward(const Variable& tokens, const nn::ForwardContext& context) override {
    const Variable words = words_.forward(tokens.value(), context);
    if (positions_ == nullptr && segments_ == nullptr) return words;
    if (segments_ == nullptr) return autograd::add(words, positions_->forward(context.text.positions, context));
    const Variable segments = segments_->forward(context.text.segments, context);
    if (positions_ == nullptr) return autograd::add(words, segments);
    return autograd::add(words, autograd::add(positions_->forward(context.text.positions, context), segments));
  }

 private:
  nn::Embedding& words_;
  nn::Embedding* positions_;
  nn::Embedding* segments_;
};

BuiltLayer build_embedding(const EmbeddingOptions& options, const LayerSite& site) {
  if (!site.is_first)
    refuse(site, "must be the first layer of the list, with tokens [N, S] as input", "move it to the beginning");
  const TextSizes sizes = options.sizes(site.text.value_or(TextSizes()));
  require_text(site.where, sizes, site.text);
  auto embedding = std::make_unique<SumOfEmbeddings>(options, sizes);
  site.net.words = &embedding->words();
  return {std::move(embedding), {site.input[0], options.features}};
}

}  // namespace

TextEmbedding read_text_embedding(ConfigReader& options) {
  EmbeddingOptions embedding;
  embedding.features = options.integer("features", std::nullopt, {.min = 1, .max = 16384, .help = "width of a token"});
  embedding.vocabulary = options.optional_integer(
      "vocab", {.min = 6, .max = 65536, .help = "tokens, special ones included; by default the data set's"});
  embedding.sequence = options.optional_integer(
      "seq", {.min = 5, .max = 65536, .help = "the most tokens of a sample; by default the data set's"});
  embedding.positions = options.boolean("positions", true, "add a vector for the token's place in its sample");
  embedding.segments = options.boolean("segments", true, "add a vector for the token's sentence, first or second");
  embedding.weight = read_layer_initializer(options, kOwnWeights).value_or(embedding.weight);
  return {.text = embedding.sizes(kDataSets),
          .build = [embedding](const LayerSite& site) { return build_embedding(embedding, site); }};
}

BuildLayer read_attention(ConfigReader& options) {
  const int64_t heads = options.integer(
      "heads", std::nullopt, {.min = 1, .max = 1024, .help = "attention heads; a divisor of a token's width"});
  const auto dropout = static_cast<float>(options.number(
      "dropout", 0, {.min = 0, .max = 0.999, .help = "probability that a token isn't looked at, in training"}));
  nn::LinearOptions linear = text_linear();
  if (const auto weight = read_layer_initializer(options, kOwnWeights)) linear.weight = weight;
  return [=](const LayerSite& site) -> BuiltLayer {
    if (site.input.rank() != 2) refuse(site, "needs tokens [N, S, E]", "begin the list with embedding");
    const int64_t width = site.input[1];
    if (width % heads != 0)
      refuse(site, fmt::format("{} heads need tokens [N, S, E] whose width E is a multiple of {}", heads, heads),
             fmt::format("choose a number of heads that divides {}", width));
    auto attention = std::make_unique<SelfAttention>(SelfAttentionOptions{
        .width = width, .heads = heads, .dropout = dropout, .dropout_layer = site.net.dropouts++, .linear = linear});
    site.net.last_attention = attention.get();
    return {std::move(attention), site.input};
  };
}

BuildLayer read_pretraining_head(ConfigReader&) {
  return [](const LayerSite& site) -> BuiltLayer {
    if (site.net.words == nullptr)
      refuse(site, "needs tokens [N, S, E]", "begin the list with embedding, or end it with linear: classes");
    if (!site.is_last) refuse(site, "must be the last layer of the list", "move it to the end");
    const int64_t width = site.net.words->shape()[1];
    if (site.input[1] != width)
      refuse(site, fmt::format("needs tokens of the embedding's width, [N, S, {}]", width),
             fmt::format("put linear: {} before it", width));
    return {.module = nullptr,
            .output = site.input,
            .head = make_pretraining_head(*site.net.words, {.pooler = site.name + ".pooler",
                                                            .predictions = site.name + ".predictions",
                                                            .next_sentence = site.name + ".next_sentence"})};
  };
}

}  // namespace dptrain::models
