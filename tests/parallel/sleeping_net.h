#pragma once

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "autograd/flatten.h"
#include "autograd/tape.h"
#include "parallel/digits.h"

namespace dptrain::parallel {

/// Seconds that a layer sleeps in training, so that its time doesn't depend on the machine's speed.
struct Sleeps {
  double forward_s = 0;
  double backward_s = 0;
  double weights_s = 0;  ///< part of the backward pass, for the gradients of weights alone
};

/// A linear layer that sleeps after its forward pass and before its backward pass.
class SleepingLinear final : public nn::Module {
 public:
  SleepingLinear(int64_t in, int64_t out, const Sleeps& sleeps)
      : fc_(add_child<nn::Linear>("fc", in, out)), sleeps_(sleeps) {}

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    const Variable y = fc_.forward(x, context);
    if (!context.training) return y;
    sleep(sleeps_.forward_s);
    return context.tape.record(y.value(), {y}, [sleeps = sleeps_, y = y.without_value()](const Tensor& gradient) {
      y.tape().in_weights_pass(gradient, [=](const Tensor&) { sleep(sleeps.weights_s); });
      sleep(sleeps.backward_s);
      y.add_gradient(gradient);
    });
  }

 private:
  static void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  nn::Linear& fc_;
  Sleeps sleeps_;
};

/// A linear layer that takes images, flattened to rows.
class LinearOfImages final : public nn::Module {
 public:
  LinearOfImages(int64_t pixels, int64_t out) : fc_(add_child<nn::Linear>("fc", pixels, out)) {}
  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    return fc_.forward(autograd::flatten(x), context);
  }

 private:
  nn::Linear& fc_;
};

struct SleepingLayer {
  int64_t outputs = 0;
  Sleeps sleeps = {};
};

/// A net of a small layer that doesn't sleep, followed by `layers`; each is a stage of the model. The last has an
/// output for each class.
inline models::ModelSpec sleeping_net(const std::vector<SleepingLayer>& layers) {
  return {.name = "sleeping", .build = [layers](const nn::LayerOptions&, const models::ModelInput& input) {
            int64_t width = 16;
            auto model = std::make_unique<nn::Model>();
            model->add_stage(std::make_unique<LinearOfImages>(input.image.elements(), width), "images.");
            for (size_t i = 0; i < layers.size(); ++i) {
              const auto& [outputs, sleeps] = layers[i];
              model->add_stage(std::make_unique<SleepingLinear>(width, outputs, sleeps), fmt::format("sleeping{}.", i));
              width = outputs;
            }
            return model;
          }};
}

}  // namespace dptrain::parallel
