#pragma once

#include <memory>
#include <optional>

#include "data/batch_loader.h"
#include "models/model_registry.h"
#include "nn/model.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "optim/weight_average.h"
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
  std::optional<double> clip_norm = {};      ///< that gradients are brought down to
  std::optional<double> average_decay = {};  ///< of the weights' moving average, which evaluates
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

/// What a rank works on in one step: its part of each micro-batch, in order.
using StepParts = std::vector<const BatchPart*>;

/// What a replica does beside computing gradients.
struct ReplicaDuties {
  bool updates = true;    ///< it has an optimizer
  bool averages = false;  ///< it keeps the weights' moving average, where there is one
};

/// A model with its optimizer on one device. Used by the device's rank thread.
///
/// A step is begun with a rank's parts of a batch, does some of what follows on the device, and is ended; its results
/// come out of the exchange once the device is done.
class Replica {
 public:
  Replica(Device& device, const ReplicaSpec& spec, const ReplicaDuties& duties);

  Device& device() const { return device_; }
  nn::Model& model() { return *model_; }
  const nn::Model& model() const { return *model_; }
  PhaseClock& clock() { return clock_; }
  StepExchange& exchange() { return exchange_; }
  int64_t classes() const { return classes_; }
  /// Of activations.
  DType dtype() const { return compute_dtype(precision_); }

  /// Begins a step on these samples, whose results it keeps, or another rank does.
  void begin_step(const StepParts& parts, const StepNumbers& numbers, bool keeps_results = true);
  /// Does `give`, or runs what was recorded of it: see StepRecorder. `parts` are those the step was begun with; where
  /// their data set doesn't lie on the device nothing is recorded. `signature`: whatever the work depends on beside
  /// their sizes.
  StepRecorder::How run_part(int part, StepRecorder::Signature signature, const StepParts& parts,
                             const StepRecorder::Give& give);

  /// Images of the model's input type and labels, on the device.
  struct Samples {
    Tensor images;
    Tensor labels;  ///< i32 [N]
  };
  /// Those of one of the step's parts, before which it has `first` samples.
  Samples samples_of(const BatchPart& part, int64_t first);

  /// A forward pass in training over some of the step's samples; records on `tape` and returns the logits.
  Variable forward(Tape& tape, const Tensor& images, const Tensor& sample_ids);

  /// Loss and gradients of the step's samples, whose losses count `scale` each; keeps their results. Gradients of
  /// several parts are added up. `ready` is called for each parameter as its gradient is completed. With no samples the
  /// gradients are zero and `ready` is called all the same.
  void forward_backward(const StepParts& parts, double scale, const GradientReadyHook& ready);

  /// What a pass without samples adds to the gradients, nothing: those that no pass has written yet become zero.
  void complete_gradients(const GradientReadyHook& ready);

  /// The optimizer's step, from complete gradients. In fp16 a step whose gradients overflow changes nothing but the
  /// loss scale.
  void update();
  /// fp16's, undefined in other precisions: what losses are multiplied by, and all of it.
  Tensor loss_factor() const { return loss_scale_ ? loss_scale_->factor() : Tensor(); }
  Tensor loss_scale_block() const { return loss_scale_ ? loss_scale_->block() : Tensor(); }
  /// Steps that fp16 skipped so far. Blocks.
  int64_t skipped_steps() const { return loss_scale_ ? loss_scale_->skipped() : 0; }

  /// Loss and hits of a block of test samples, by the running statistics. Blocks.
  SampleResults evaluate(const BatchPart& block);

  /// The weights' moving average, where this replica keeps it.
  optim::WeightAverage* average() { return average_ ? &*average_ : nullptr; }

 private:
  Samples decoded(const BatchPart& part, const Tensor& ids);
  /// The gradients of one part, added to what others left.
  void add_gradients(const BatchPart& part, int64_t first, double scale, const GradientReadyHook& ready);

  Device& device_;
  uint64_t seed_;
  int64_t classes_;
  Precision precision_;
  std::unique_ptr<nn::Model> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::LossScale> loss_scale_;
  std::optional<optim::WeightAverage> average_;
  std::optional<double> clip_norm_;
  StepNumbers numbers_;
  PhaseClock clock_;
  StepExchange exchange_;
  StepRecorder recorder_;
};

/// Labels as a tensor of the device.
Tensor labels_tensor(Device& device, std::span<const int32_t> labels);

}  // namespace dptrain::parallel
