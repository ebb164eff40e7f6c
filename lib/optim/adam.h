#pragma once

#include "ops/adam.h"
#include "optim/optimizer.h"

namespace dptrain::optim {

struct AdamSettings {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  ///< AdamW
};

/// Adam and AdamW as PyTorch's torch.optim defines them; see ops/adam.h.
class Adam final : public Optimizer {
 public:
  Adam(const FlatWeights& flat, const AdamSettings& settings);
  void step_range(int64_t begin, const Tensor& gradients, const OptimizerStep& step) override;
  std::vector<OptimizerState> state() const override;

 private:
  AdamSettings settings_;
  ops::UpdateGroups groups_;
  ops::AdamMoments moments_;
};

}  // namespace dptrain::optim
