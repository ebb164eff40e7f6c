#pragma once

#include <optional>

#include "nn/module.h"
#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/dropout.h"
#include "ops/pool2d.h"

namespace dptrain::nn {

/// How the layers of a model are made, besides their sizes.
struct LayerOptions {
  /// The device that the model will be placed on. It decides the layout in which weights are kept.
  const Device& device;
  ops::ConvolutionAlgorithm convolution = ops::ConvolutionAlgorithm::automatic;
  /// Keep weights in the plain layout, which every step then converts. For replicas on devices of several kinds: their
  /// gradients need one layout to be summed.
  bool plain_weights = false;
};

struct Conv2dSizes {
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = 0;
  bool bias = true;
  bool relu = false;  ///< max(0, .) of the output, in the same pass
};

/// Parameters `weight` [O, C, K, K] and `bias` [O]. They begin as in PyTorch's Conv2d unless `weight` says otherwise.
class Conv2d : public Module {
 public:
  Conv2d(const LayerOptions& options, const Conv2dSizes& sizes, std::optional<Initializer> weight = {});
  /// Makes the output the maxima over windows of the convolution's output, computed in the same pass if possible.
  void take_max_pool(const ops::Pool2dOptions& pool) { max_pool_ = pool; }
  /// Says that a batch norm is the only reader of the output. The batch norm subtracts the mean of the batch and the
  /// bias with it, so the gradient of the bias is 0 in training; sums over rounded gradients would only add noise. The
  /// gradient is still summed if a max pool comes in between, and if a ReLU does, because it isn't 0 then.
  void feed_batch_norm() { feeds_batch_norm_ = !options_.relu && !max_pool_; }
  /// [N, C, H, W] -> [N, O, OH, OW]
  Variable forward(const Variable& x, const ForwardContext& context) override;

 private:
  ops::Conv2dOptions options_;
  std::optional<ops::Pool2dOptions> max_pool_;
  bool feeds_batch_norm_ = false;
  Parameter& weight_;
  Parameter* bias_;
};

struct LinearOptions {
  /// The function applied to the output.
  enum class Activation { none, relu, gelu };
  Activation activation = Activation::none;
  std::optional<Initializer> weight = {};
  bool with_bias = true;
  std::optional<Initializer> bias = {};
};

/// Parameters `weight` [O, I] and, unless the options leave it out, `bias` [O]. They begin as in PyTorch's Linear
/// unless the options say otherwise.
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, const LinearOptions& options = {});
  /// Says that a batch norm is the only reader of the output; see Conv2d::feed_batch_norm.
  void feed_batch_norm() { feeds_batch_norm_ = activation_ == LinearOptions::Activation::none; }
  /// [..., I] -> [..., O]
  Variable forward(const Variable& x, const ForwardContext& context) override;

 private:
  LinearOptions::Activation activation_;
  bool feeds_batch_norm_ = false;
  Parameter& weight_;
  Parameter* bias_;
};

/// Parameters `weight` (gamma, 1) and `bias` (beta, 0), states `running_mean` (0) and `running_var` (1), all [C].
class BatchNorm : public Module {
 public:
  explicit BatchNorm(int64_t channels, const ops::BatchNormOptions& options = {});
  /// x: images [N, C, H, W] or features [N, C]; returns the same shape.
  Variable forward(const Variable& x, const ForwardContext& context) override;
  /// Adds `residual` before the ReLU, in the same pass; it goes to the first channels if it has fewer than x.
  Variable forward(const Variable& x, const Variable& residual, const ForwardContext& context);

 private:
  ops::BatchNormOptions options_;
  Parameter& gamma_;
  Parameter& beta_;
  RunningState& running_mean_;
  RunningState& running_variance_;
};

/// Zeroes elements with `probability` in training. Draws are keyed by the sample and by `layer`, a number that is
/// unique in the model.
class Dropout : public Module {
 public:
  Dropout(float probability, uint32_t layer) : probability_(probability), layer_(layer) {}
  /// If x holds only the rows of a text that are read, [R, E] (see TextInputs), each row drops the same elements as it
  /// would among all tokens.
  Variable forward(const Variable& x, const ForwardContext& context) override;

  /// The probability in this pass; 0 outside training.
  float probability(const ForwardContext& context) const { return context.training ? probability_ : 0.f; }
  /// The key of the random draws for x.
  ops::DropoutKey key(const Variable& x, const ForwardContext& context) const;

 private:
  float probability_;
  uint32_t layer_;
};

/// Parameters `weight` (gamma, 1) and `bias` (beta, 0), [E].
class LayerNorm : public Module {
 public:
  LayerNorm(int64_t width, float epsilon);
  /// [..., E], normalized along its last dimension
  Variable forward(const Variable& x, const ForwardContext& context) override;
  /// Normalizes x + residual, in one pass.
  Variable forward(const Variable& x, const Variable& residual, const ForwardContext& context);
  /// Normalizes dropout(x) + residual, in one pass.
  Variable forward(const Variable& x, const Dropout& dropout, const Variable& residual, const ForwardContext& context);

 private:
  float epsilon_;
  Parameter& gamma_;
  Parameter& beta_;
};

/// Parameter `weight` [V, E].
class Embedding : public Component {
 public:
  /// Looking up row `padding` (-1: none) never trains that row.
  Embedding(int64_t count, int64_t width, const Initializer& weight, int32_t padding = -1);
  /// ids: i32 of any shape, each 0 to V - 1. Returns their rows: the shape of `ids` with E appended.
  Variable forward(const Tensor& ids, const ForwardContext& context);
  Parameter& weight() { return weight_; }

 private:
  int32_t padding_;
  Parameter& weight_;
};

}  // namespace dptrain::nn
