#pragma once

#include <cstdint>
#include <string>

#include "nn/layers.h"
#include "ops/attention.h"

namespace dptrain::models {

struct SelfAttentionOptions {
  int64_t width = 0;  ///< the width of a token, E: a multiple of heads
  int64_t heads = 1;
  float dropout = 0;              ///< the probability of zeroing an attention probability
  uint32_t dropout_layer = 0;     ///< a number that is unique in the model
  nn::LinearOptions linear = {};  ///< options of each of the four linear layers
};

/// Brings x to the rows of `beside`, to which it is to be added: if `beside` holds only the rows that are read, returns
/// those rows of x; otherwise x.
Variable rows_beside(const Variable& beside, const Variable& x, const nn::ForwardContext& context);

/// The names of its four linear layers.
struct SelfAttentionNames {
  std::string query = "query";
  std::string key = "key";
  std::string value = "value";
  std::string output = "output";
};

/// Attention between the tokens of a sample, except padding (Vaswani et al., "Attention Is All You Need", 2017). It has
/// four linear layers of [E, E]: three before ops::attention and one after it. Needs the context's text.
class SelfAttention final : public nn::Module {
 public:
  explicit SelfAttention(const SelfAttentionOptions& options, const SelfAttentionNames& names = {});

  /// [N, S, E] -> [N, S, E], or [R, E] if it makes only the rows that are read.
  Variable forward(const Variable& x, const nn::ForwardContext& context) override;
  /// Says that no attention follows, so that it makes only the rows that the context's text reads: in training about a
  /// sixth.
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
