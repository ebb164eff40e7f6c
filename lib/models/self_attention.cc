#include "models/self_attention.h"

#include "autograd/attention.h"
#include "autograd/embedding.h"

namespace dptrain::models {

Variable rows_beside(const Variable& beside, const Variable& x, const nn::ForwardContext& context) {
  const bool alone = nn::are_read_rows(beside.value().shape(), context.text);
  return alone && !nn::are_read_rows(x.value().shape(), context.text) ? autograd::rows_of(x, context.text.read) : x;
}

SelfAttention::SelfAttention(const SelfAttentionOptions& options, const SelfAttentionNames& names)
    : query_(add_child<nn::Linear>(names.query, options.width, options.width, options.linear)),
      key_(add_child<nn::Linear>(names.key, options.width, options.width, options.linear)),
      value_(add_child<nn::Linear>(names.value, options.width, options.width, options.linear)),
      output_(add_child<nn::Linear>(names.output, options.width, options.width, options.linear)),
      heads_(options.heads),
      dropout_(options.dropout),
      dropout_layer_(options.dropout_layer) {}

Variable SelfAttention::forward(const Variable& x, const nn::ForwardContext& context) {
  const Variable attended = autograd::attention({.query = query_.forward(x, context),
                                                 .key = key_.forward(x, context),
                                                 .value = value_.forward(x, context),
                                                 .lengths = context.text.lengths},
                                                attention_options(context));
  const Tensor& read = context.text.read;
  return output_.forward(read_rows_alone_ && read.defined() ? autograd::rows_of(attended, read) : attended, context);
}

ops::AttentionOptions SelfAttention::attention_options(const nn::ForwardContext& context) const {
  if (!context.training || dropout_ == 0.f) return {.heads = heads_};
  return {
      .heads = heads_,
      .dropout = dropout_,
      .key = {.seed = context.seed, .layer = dropout_layer_, .epoch = context.epoch, .sample_ids = context.sample_ids}};
}

}  // namespace dptrain::models
