#pragma once

#include <memory>
#include <vector>

#include "autograd/elementwise.h"
#include "autograd/flatten.h"
#include "parallel/digits.h"

namespace dptrain::parallel {

/// Computes fc(x). In training, every second epoch, beginning with the first, adds branch(x).
class HalfUsed final : public nn::Module {
 public:
  HalfUsed(int64_t in, int64_t out)
      : fc_(add_child<nn::Linear>("fc", in, out)), branch_(add_child<nn::Linear>("branch", in, out)) {}

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    const bool with_branch = context.training && *context.epoch.data<int32_t>() % 2 == 1;
    const Variable y = fc_.forward(x, context);
    return with_branch ? autograd::add(y, branch_.forward(x, context)) : y;
  }

 private:
  nn::Linear& fc_;
  nn::Linear& branch_;
};

/// Flattens images to rows.
class Flattened final : public nn::Module {
 public:
  Variable forward(const Variable& x, const nn::ForwardContext&) override { return autograd::flatten(x); }
};

/// Four stages: Flattened, a linear layer, HalfUsed, a linear layer.
inline models::ModelSpec half_used_net() {
  return {.name = "half_used", .build = [](const nn::LayerOptions&, const models::ModelInput& input) {
            constexpr int64_t kHidden = 12;
            auto model = std::make_unique<nn::Model>();
            model->add_stage(std::make_unique<Flattened>());
            model->add_stage(std::make_unique<nn::Linear>(input.image.elements(), kHidden), "fc1.");
            model->add_stage(std::make_unique<HalfUsed>(kHidden, kHidden));
            model->add_stage(std::make_unique<nn::Linear>(kHidden, input.classes), "fc2.");
            return model;
          }};
}

struct EpochSteps {
  int64_t first = 1;  ///< counted from 1
  int64_t last = 1;
  int64_t batch = 1;
  double learning_rate = 0.1;
  int64_t micro_batches = 1;
};

/// Trains as `train` does, but tells the replicas that every step is a new epoch.
inline std::vector<double> train_steps_as_epochs(Strategy& strategy, const Datasets& data, const EpochSteps& steps) {
  BatchLoader loader(data.train, {.batch_size = steps.batch,
                                  .micro_batches = steps.micro_batches,
                                  .seed = 5,
                                  .devices = strategy.batch_devices(),
                                  .split = strategy.batch_split()});
  loader.start_epoch(1, steps.first - 1);
  std::vector<double> losses;
  for (int64_t step = steps.first; step <= steps.last; ++step) {
    strategy.train_step(loader.next(), {.step = step, .epoch = step, .learning_rate = steps.learning_rate});
    for (const Score& score : strategy.take_scores(step == steps.last)) losses.push_back(score.mean_loss());
  }
  return losses;
}

}  // namespace dptrain::parallel
