#pragma once

#include <memory>

#include "data/batch_loader.h"
#include "models/model_registry.h"
#include "nn/model.h"
#include "optim/optimizer.h"
#include "parallel/phase_clock.h"
#include "tensor/precision.h"

namespace dptrain::parallel {

/// What every replica of a model is made from; the same on all devices.
struct ReplicaSpec {
  models::ModelSpec model;
  models::ModelInput input;
  ops::ConvolutionAlgorithm convolution = ops::ConvolutionAlgorithm::automatic;
  nn::InitializationOptions initialization;
  optim::OptimizerSpec optimizer;
  Precision precision = Precision::fp32;
};

/// What a step has shown of some samples: the loss of each, in order, and how many were classified rightly.
struct SampleResults {
  std::vector<double> losses;
  int64_t correct = 0;
};

/// A model with its optimizer on one device. Used by the device's rank thread.
class Replica {
 public:
  Replica(Device& device, const ReplicaSpec& spec, bool with_optimizer);

  Device& device() const { return device_; }
  nn::Model& model() { return *model_; }
  const nn::Model& model() const { return *model_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  PhaseClock& clock() { return clock_; }
  int64_t classes() const { return classes_; }
  /// Of activations.
  DType dtype() const { return compute_dtype(precision_); }

  /// Images of the model's input type and labels, on the device.
  struct Samples {
    Tensor images;
    Tensor labels;  ///< i32 [N]
  };
  Samples samples_of(const BatchPart& part);

  /// A forward pass that records on `tape`; returns the logits.
  Variable forward(Tape& tape, const Tensor& images, std::span<const int64_t> sample_ids, uint32_t epoch);

  /// Loss and gradients of a part of a batch whose losses count `scale` each. `ready` is called for each parameter as
  /// its gradient is completed. With no samples the gradients are zero and `ready` is called all the same.
  SampleResults forward_backward(const BatchPart& part, double scale, uint32_t epoch, const GradientReadyHook& ready);

  /// Loss and hits of a block of test samples, by the running statistics.
  SampleResults evaluate(const BatchPart& block);

 private:
  Device& device_;
  uint64_t seed_;
  int64_t classes_;
  Precision precision_;
  std::unique_ptr<nn::Model> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  PhaseClock clock_;
};

/// Labels as a tensor of the device.
Tensor labels_tensor(Device& device, std::span<const int32_t> labels);

/// Losses [N] and hits of logits [N, K].
SampleResults results_of(const Tensor& losses, const Tensor& logits, const Tensor& labels);

}  // namespace dptrain::parallel
