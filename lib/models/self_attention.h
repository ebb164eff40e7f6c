#pragma once

#include <cstdint>
#include <string>

#include "nn/layers.h"
#include "ops/attention.h"

namespace dptrain::models {

struct SelfAttentionOptions {
  int64_t width = 0;  ///< of a token, E: a multiple of heads
  int64_t heads = 1;
  float dropout = 0;              ///< the probability of dropping a probability
  uint32_t dropout_layer = 0;     ///< a number of its own in the model
  nn::LinearOptions linear = {};  ///< of each of the four layers
};

/// What its four linear layers are called.
struct SelfAttentionNames {
  std::string query = "query";
  std::string key = "key";
  std::string value = "value";
  std::string output = "output";
};

/// Attention of a sample's tokens to each other (Vaswani et al., "Attention Is All You Need", 2017), those of padding
/// apart: four linear layers of [E, E], three before ops::attention and one behind it. Needs the context's text.
class SelfAttention final : public nn::Module {
 public:
  explicit SelfAttention(const SelfAttentionOptions& options, const SelfAttentionNames& names = {});

  /// [N, S, E] -> [N, S, E]: project(attend(x))
  Variable forward(const Variable& x, const nn::ForwardContext& context) override;
  /// [N, S, E] -> [N, S, E], the heads' outputs side by side.
  Variable attend(const Variable& x, const nn::ForwardContext& context);
  /// [..., E] -> [..., E], by the output's layer: of all rows that attend made, or of some.
  Variable project(const Variable& attended, const nn::ForwardContext& context);

 private:
  ops::AttentionOptions attention_options(const nn::ForwardContext& context) const;

  nn::Linear& query_;
  nn::Linear& key_;
  nn::Linear& value_;
  nn::Linear& output_;
  int64_t heads_;
  float dropout_;
  uint32_t dropout_layer_;
};

}  // namespace dptrain::models
