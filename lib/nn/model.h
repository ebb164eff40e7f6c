#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace dptrain::nn {

/// What overrides the initializers of a model's own: those of tensors of two or more dimensions.
struct InitializationOptions {
  uint64_t seed = 0;
  std::optional<Initializer> weights = {};
};

/// A whole model: an ordered list of stages, so that it can be cut between any two of them, and its memory on one
/// device: all weights in one flat buffer, all gradients in another, in the order of first use.
class Model {
 public:
  /// Adds the next stage; `prefix` begins the names of its parameters ("" or "layer1.0.").
  void add_stage(std::unique_ptr<Module> stage, std::string prefix = {});
  /// What comes after the last stage, where there are several outputs.
  void set_head(std::unique_ptr<Head> head) { head_ = std::move(head); }

  /// Gives every parameter and running state memory on `device` and its first values, and operands of type `compute`.
  /// Called once, after the last stage.
  void place(Device& device, const InitializationOptions& options, DType compute = DType::f32);

  /// Of a model without a head: the logits [N, classes] of images [N, C, H, W], or whatever the last stage makes.
  Variable forward(const Variable& x, const ForwardContext& context);
  /// All outputs: the head's, or the one of `forward`.
  std::vector<Variable> outputs(const Variable& x, const ForwardContext& context);

  int stage_count() const { return static_cast<int>(stages_.size()); }
  Module& stage(int index) { return *stages_[static_cast<size_t>(index)].module; }

  const std::vector<Parameter*>& parameters() const { return parameters_; }
  const std::vector<RunningState*>& states() const { return states_; }
  /// A further name of a parameter.
  struct TiedName {
    std::string name;
    Parameter* parameter;
  };
  const std::vector<TiedName>& tied_names() const { return tied_names_; }
  /// Elements that are trained, padding of layouts not counted.
  int64_t parameter_elements() const;

  Device& device() const { return weights_.device(); }
  /// All weights, flat, padding included; the same for gradients, and for running states (which may be empty).
  const Tensor& weights() const { return weights_; }
  const Tensor& gradients() const { return gradients_; }
  const Tensor& running_states() const { return state_values_; }
  /// The weights in half precision, for operators to read; undefined where they compute in f32.
  const Tensor& weight_copies() const { return weight_copies_; }
  /// Makes the copies anew; after all changes of the weights but the optimizer's, which writes them itself.
  void refresh_copies();
  /// Where a parameter begins in the flat buffers, in elements.
  int64_t offset(const Parameter& parameter) const { return offsets_[static_cast<size_t>(parameter.index())]; }

  /// Forgets all gradients: the next backward pass overwrites them.
  void forget_gradients();

 private:
  struct Stage {
    std::string prefix;
    std::unique_ptr<Module> module;
  };

  /// Notes what a piece of the model has.
  void take_in(Component& component, const std::string& prefix, std::vector<Initializer>& initializers);
  Variable through_stages(const Variable& x, const ForwardContext& context);

  std::vector<Stage> stages_;
  std::unique_ptr<Head> head_;
  std::vector<Parameter*> parameters_;
  std::vector<RunningState*> states_;
  std::vector<TiedName> tied_names_;
  std::vector<int64_t> offsets_;
  Tensor weights_;
  Tensor weight_copies_;
  Tensor gradients_;
  Tensor state_values_;
};

}  // namespace dptrain::nn
