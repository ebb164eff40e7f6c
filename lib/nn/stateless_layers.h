#pragma once

#include "nn/module.h"
#include "ops/pool2d.h"

// Layers without parameters, for nets that are lists of layers; a model in C++ calls their functions in autograd/.

namespace dptrain::nn {

/// max(0, x), of any shape.
class Relu : public Module {
 public:
  Variable forward(const Variable& x, const ForwardContext& context) override;
};

/// x * (1 + erf(x / sqrt 2)) / 2, of any shape.
class Gelu : public Module {
 public:
  Variable forward(const Variable& x, const ForwardContext& context) override;
};

/// The hyperbolic tangent of x, of any shape.
class Tanh : public Module {
 public:
  Variable forward(const Variable& x, const ForwardContext& context) override;
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
