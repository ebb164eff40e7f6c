#pragma once

#include "ops/tensor_table.h"
#include "optim/optimizer.h"

namespace dptrain::optim {

struct LarsSettings {
  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;
  double trust_coefficient = 0.001;
  double epsilon = 1e-8;
  bool adapts_vectors = false;  ///< whether biases and the weights of norms are scaled, too
};

/// Layer-wise adaptive rate scaling; see ops/lars.h.
class Lars final : public Optimizer {
 public:
  static constexpr bool kMeasures = true;
  Lars(const FlatWeights& flat, const LarsSettings& settings);
  void step_range(int64_t begin, const Tensor& gradients, const OptimizerStep& step) override;
  void measure(const OptimizerStep& step, const Tensor& squares) override;
  std::vector<OptimizerState> state() const override;

 private:
  LarsSettings settings_;
  ops::TensorTable table_;
  Tensor velocity_;  ///< undefined without momentum
};

}  // namespace dptrain::optim
