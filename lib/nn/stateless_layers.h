#pragma once

#include "nn/module.h"
#include "ops/activation.h"
#include "ops/pool2d.h"

// Layers without parameters, for nets that are lists of layers. A model written in C++ calls their functions in
// autograd/.

namespace dptrain::nn {

/// Applies a function to each value of x, of any shape.
class Activation : public Module {
 public:
  explicit Activation(const ops::Activation& function) : function_(function) {}
  Variable forward(const Variable& x, const ForwardContext& context) override;

 private:
  ops::Activation function_;
};

/// [N, C, H, W] -> [N, C, OH, OW]; see ops/pool2d.h.
class Pool2d : public Module {
 public:
  Pool2d(ops::Pooling pooling, const ops::Pool2dOptions& options) : pooling_(pooling), options_(options) {}
  Variable forward(const Variable& x, const ForwardContext& context) override;
  const ops::Pool2dOptions& options() const { return options_; }

 private:
  ops::Pooling pooling_;
  ops::Pool2dOptions options_;
};

/// The mean of each channel: [N, C, H, W] -> [N, C]
class GlobalAveragePool : public Module {
 public:
  Variable forward(const Variable& x, const ForwardContext& context) override;
};

/// [N, C, H, W] -> [N, C * H * W]
class Flatten : public Module {
 public:
  Variable forward(const Variable& x, const ForwardContext& context) override;
};

}  // namespace dptrain::nn
