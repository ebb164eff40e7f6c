#pragma once

#include <memory>
#include <optional>

#include "data/batch_loader.h"
#include "models/model_registry.h"
#include "nn/model.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "parallel/phase_clock.h"
#include "parallel/step_exchange.h"
#include "parallel/step_recorder.h"
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
  int steps_in_flight = 2;  ///< that a GPU is given ahead
  /// Devices of several kinds have replicas: their weights and gradients lie alike.
  bool mixed_devices = false;
};

struct StepNumbers {
  int64_t step = 0;   ///< from 1
  int64_t epoch = 0;  ///< from 1
  double learning_rate = 0;
};

/// A model with its optimizer on one device. Used by the device's rank thread.
///
/// A step is begun with a part of a batch, does some of what follows on the device, and is ended; its results come out
/// of the exchange once the device is done.
class Replica {
 public:
  Replica(Device& device, const ReplicaSpec& spec, bool with_optimizer);

  Device& device() const { return device_; }
  nn::Model& model() { return *model_; }
  const nn::Model& model() const { return *model_; }
  PhaseClock& clock() { return clock_; }
  StepExchange& exchange() { return exchange_; }
  int64_t classes() const { return classes_; }
  /// Of activations.
  DType dtype() const { return compute_dtype(precision_); }

  /// Begins a step on these samples, whose results it keeps, or another rank does.
  void begin_step(const BatchPart& part, const StepNumbers& numbers, bool keeps_results = true);
  /// Does `give`, or runs what was recorded of it: see StepRecorder. `samples` are those the step was begun with; where
  /// their data set doesn't lie on the device nothing is recorded. `signature`: whatever the work depends on beside
  /// their number.
  StepRecorder::How run_part(int part, StepRecorder::Signature signature, const BatchPart& samples,
                             const StepRecorder::Give& give);

  /// Images of the model's input type and labels, on the device.
  struct Samples {
    Tensor images;
    Tensor labels;  ///< i32 [N]
  };
  /// Those of the step that was begun with `part`.
  Samples samples_of(const BatchPart& part);

  /// A forward pass in training over some of the step's samples; records on `tape` and returns the logits.
  Variable forward(Tape& tape, const Tensor& images, const Tensor& sample_ids);

  /// Loss and gradients of the step's samples, whose losses count `scale` each; keeps their results. `ready` is called
  /// for each parameter as its gradient is completed. With no samples the gradients are zero and `ready` is called all
  /// the same.
  void forward_backward(const BatchPart& part, double scale, const GradientReadyHook& ready);

  /// The optimizer's step, at the learning rate of the step, from complete gradients. In fp16 a step whose gradients
  /// overflow changes nothing but the loss scale.
  void update(double learning_rate);
  /// fp16's, undefined in other precisions: what losses are multiplied by, and all of it.
  Tensor loss_factor() const { return loss_scale_ ? loss_scale_->factor() : Tensor(); }
  Tensor loss_scale_block() const { return loss_scale_ ? loss_scale_->block() : Tensor(); }
  /// Steps that fp16 skipped so far. Blocks.
  int64_t skipped_steps() const { return loss_scale_ ? loss_scale_->skipped() : 0; }

  /// Loss and hits of a block of test samples, by the running statistics. Blocks.
  SampleResults evaluate(const BatchPart& block);

 private:
  Samples decoded(const BatchPart& part, const Tensor& ids);

  Device& device_;
  uint64_t seed_;
  int64_t classes_;
  Precision precision_;
  std::unique_ptr<nn::Model> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::LossScale> loss_scale_;
  PhaseClock clock_;
  StepExchange exchange_;
  StepRecorder recorder_;
};

/// Labels as a tensor of the device.
Tensor labels_tensor(Device& device, std::span<const int32_t> labels);

}  // namespace dptrain::parallel
