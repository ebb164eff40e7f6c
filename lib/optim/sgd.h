#pragma once

#include "optim/optimizer.h"

namespace dptrain::optim {

struct SgdSettings {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// Stochastic gradient descent as PyTorch's torch.optim.SGD defines it; see ops/sgd.h.
class Sgd final : public Optimizer {
 public:
  Sgd(const FlatWeights& flat, const SgdSettings& settings);
  void step_range(int64_t begin, const Tensor& gradients, const OptimizerStep& step) override;
  std::vector<OptimizerState> state() const override;

 private:
  SgdSettings settings_;
  ops::UpdateGroups groups_;
  Tensor velocity_;  ///< undefined without momentum
};

}  // namespace dptrain::optim
