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

/// x, or of it the rows that are read, where `beside` has no others: what is added to it.
Variable rows_beside(const Variable& beside, const Variable& x, const nn::ForwardContext& context);

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

  /// [N, S, E] -> [N, S, E], or [R, E] where it makes the rows that are read alone.
  Variable forward(const Variable& x, const nn::ForwardContext& context) override;
  /// As no attention follows, it makes those rows alone that the context's text reads: in training about a sixth.
  void make_read_rows_alone() { read_rows_alone_ = true; }

 private:
  ops::AttentionOptions attention_options(const nn::ForwardContext& context) const;

  nn::Linear& query_;
  nn::Linear& key_;
  nn::Linear& value_;
  nn::Linear& output_;
  int64_t heads_;
  float dropout_;
  uint32_t dropout_layer_;
  bool read_rows_alone_ = false;
};

}  // namespace dptrain::models
