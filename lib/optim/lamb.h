#pragma once

#include "ops/lamb.h"
#include "optim/optimizer.h"

namespace dptrain::optim {

struct LambSettings {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  bool adapts_vectors = false;  ///< whether biases and the weights of norms are scaled, too
};

/// LAMB: Adam's steps scaled by the norms of parameters; see ops/lamb.h.
class Lamb final : public Optimizer {
 public:
  static constexpr bool kMeasures = true;
  Lamb(const FlatWeights& flat, const LambSettings& settings);
  void step_range(int64_t begin, const Tensor& gradients, const OptimizerStep& step) override;
  void measure(const OptimizerStep& step, const Tensor& squares) override;
  std::vector<OptimizerState> state() const override;

 private:
  ops::LambOptions options(const OptimizerStep& step) const;

  LambSettings settings_;
  ops::TensorTable table_;
  ops::AdamMoments moments_;
};

}  // namespace dptrain::optim
