#pragma once

#include <optional>

#include "nn/module.h"
#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/dropout.h"
#include "ops/pool2d.h"

namespace dptrain::nn {

/// How the layers of a model are made, beside their sizes.
struct LayerOptions {
  /// The device that the model will be placed on: it says in which layout weights are best kept.
  const Device& device;
  ops::ConvolutionAlgorithm convolution = ops::ConvolutionAlgorithm::automatic;
  /// Weights as they come, which every step converts: for replicas on devices of several kinds, whose gradients must
  /// lie alike to be summed.
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

/// Parameters `weight` [O, C, K, K] and `bias` [O]; begins as PyTorch's Conv2d does unless `weight` says otherwise.
class Conv2d : public Module {
 public:
  Conv2d(const LayerOptions& options, const Conv2dSizes& sizes, std::optional<Initializer> weight = {});
  /// From now on its output is the maxima over windows of what it was, in the same pass where that is possible.
  void take_max_pool(const ops::Pool2dOptions& pool) { max_pool_ = pool; }
  /// From now on a batch norm reads its output, and nothing else does. That takes the bias away again with the mean of
  /// the batch: its gradient is 0 in training, and what sums over rounded gradients would make of it is noise. It is
  /// summed all the same where maxima come between them, and where a ReLU does, which makes it something.
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
  /// What becomes of the output.
  enum class Activation { none, relu, gelu };
  Activation activation = Activation::none;
  std::optional<Initializer> weight = {};
  bool with_bias = true;
  std::optional<Initializer> bias = {};
};

/// Parameters `weight` [O, I] and, unless the options leave it out, `bias` [O]; begins as PyTorch's Linear does unless
/// they say otherwise.
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, const LinearOptions& options = {});
  /// From now on a batch norm reads its output, and nothing else does: as of a convolution.
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
  /// Images [N, C, H, W] or features [N, C], as they are
  Variable forward(const Variable& x, const ForwardContext& context) override;
  /// The same with `residual` added before the ReLU, in one pass; to the first channels if it has fewer.
  Variable forward(const Variable& x, const Variable& residual, const ForwardContext& context);

 private:
  ops::BatchNormOptions options_;
  Parameter& gamma_;
  Parameter& beta_;
  RunningState& running_mean_;
  RunningState& running_variance_;
};

/// Zeroes elements with `probability` in training, keyed by sample and `layer`, a number of its own in the model.
class Dropout : public Module {
 public:
  Dropout(float probability, uint32_t layer) : probability_(probability), layer_(layer) {}
  /// The rows of a text that are read, [R, E] (see TextInputs), drop what they drop among all of its tokens.
  Variable forward(const Variable& x, const ForwardContext& context) override;

  /// The probability in this pass: 0 where nothing is trained.
  float probability(const ForwardContext& context) const { return context.training ? probability_ : 0.f; }
  /// What is drawn with of x.
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
  /// The same of x + residual, in one pass.
  Variable forward(const Variable& x, const Variable& residual, const ForwardContext& context);
  /// The same of dropout(x) + residual.
  Variable forward(const Variable& x, const Dropout& dropout, const Variable& residual, const ForwardContext& context);

 private:
  float epsilon_;
  Parameter& gamma_;
  Parameter& beta_;
};

/// Parameter `weight` [V, E].
class Embedding : public Component {
 public:
  /// The row `padding` (-1: none) is never trained by what looks it up.
  Embedding(int64_t count, int64_t width, const Initializer& weight, int32_t padding = -1);
  /// ids: i32 of any shape, each 0 to V - 1; returns their rows: E added to the shape.
  Variable forward(const Tensor& ids, const ForwardContext& context);
  Parameter& weight() { return weight_; }

 private:
  int32_t padding_;
  Parameter& weight_;
};

}  // namespace dptrain::nn
