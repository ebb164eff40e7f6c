#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace dptrain::nn {

/// Settings that override the model's own initializers.
struct InitializationOptions {
  uint64_t seed = 0;
  std::optional<Initializer> weights = {};  ///< for tensors of two or more dimensions
  bool zero_biases = false;  ///< zero the tensors of one dimension, if the model's own initializer draws them
};

/// Stages [begin, end) of a model; by default all of them.
struct StageRange {
  int begin = 0;
  int end = std::numeric_limits<int>::max();

  bool operator==(const StageRange&) const = default;
};
/// The stages that a device has of a model: at least one range, in order, with gaps between them; `{{}}` is the whole
/// model.
using StageRanges = std::vector<StageRange>;

/// Parameters [first_parameter, end_parameter) of a model, by index. They follow one another in memory, as elements
/// [begin, end) of the model's flat buffers.
struct ParameterRun {
  int first_parameter = 0;
  int end_parameter = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t padding = 0;  ///< zero elements after these, which gradients held by runs have in memory
};

/// A whole model and its memory on one device. The model is an ordered list of stages, so that it can be cut between
/// any two of them. All weights are in one flat buffer, and all gradients in another or in runs of it, in the order of
/// first use. Frozen weights have a buffer of their own, so that updates, sums and messages of the flat buffers cover
/// only what is trained. If the model was cut, a device holds some of the stages; the other stages have no memory there
/// and aren't run.
class Model {
 public:
  /// Adds the next stage. The names of its parameters begin with `prefix` ("" or "layer1.0.").
  void add_stage(std::unique_ptr<Module> stage, std::string prefix = {});
  /// Sets the head, which follows the last stage in a model with several outputs.
  void set_head(std::unique_ptr<Head> head) { head_ = std::move(head); }

  /// Calls `visit` with every parameter of all stages and of the head, placed or not, and its name.
  void visit_parameters(const Component::ParameterVisitor& visit);
  /// Calls `visit` with every further name of a parameter.
  void visit_tied(const Component::TiedVisitor& visit);

  /// Gives every parameter and running state memory on `device` and its first values; operands have type `compute`.
  /// Called once, after the last stage. With `part`, only these stages are placed, with the values that they have in
  /// the whole model. If a placed stage has a further name of another stage's parameter, that parameter is held as
  /// well, after all others.
  void place(Device& device, const InitializationOptions& options, DType compute = DType::f32,
             const StageRanges& part = {{}});

  /// How `place_by_runs` cuts the trained weights, which are kept elsewhere, and passes on their first values.
  struct WeightRuns {
    /// Cuts the parameters into runs; their offsets are known by then. Every parameter must be in exactly one run.
    std::function<std::vector<ParameterRun>(const Model&)> cut;
    /// Receives the first values of each run, flat and in order. Only one run is in memory at a time.
    std::function<void(const ParameterRun&, const Tensor& weights)> begun;
  };
  /// Is called instead of `place` if trained weights are kept elsewhere. A run of them has memory here only from
  /// `bind_weights` to `release_weights`, and gradients as with `hold_gradients_by_runs`. Frozen weights are placed as
  /// usual.
  void place_by_runs(Device& device, const InitializationOptions& options, DType compute, const WeightRuns& runs);
  /// Makes operators compute with the values of a run, flat, or with copies of them in half precision. Exactly one of
  /// the two is defined.
  void bind_weights(const ParameterRun& run, const Tensor& weights, const Tensor& copies);
  /// Drops the memory of a run. An operator that is about to read the run calls `take`, which binds it again.
  void release_weights(const ParameterRun& run, const std::function<void()>& take);

  /// Makes the model compute with the weights of `lender`, a whole model like it, as `device` sees them. Running states
  /// are its own. Gradients must be bound before a backward pass. Used instead of `place`.
  void place_beside(Device& device, const Model& lender);
  /// Makes backward passes write gradients to `flat`, which has the same order as the weights.
  void bind_gradients(const Tensor& flat);
  /// Lets the gradients of a run have memory only while they are needed. A backward pass takes the memory when it
  /// writes the first gradient of the run, and `forget_gradients` gives it back. `runs`: all parameters, each in one
  /// run. `gradients()` is then undefined.
  void hold_gradients_by_runs(std::vector<ParameterRun> runs);

  /// Runs a model without a head: images [N, C, H, W] to logits [N, classes], or to the output of the last stage. The
  /// placed stages must be one range.
  Variable forward(const Variable& x, const ForwardContext& context);
  /// Returns all outputs: those of the head, or the one of `forward`. For a part without the model's end, returns the
  /// output of its last stage. The placed stages must be one range.
  std::vector<Variable> outputs(const Variable& x, const ForwardContext& context);
  /// Runs one of the ranges that were placed.
  std::vector<Variable> outputs(const Variable& x, const ForwardContext& context, const StageRange& range);

  /// Called in training passes with the output of each stage.
  using StageHook = std::function<void(int stage, const Tensor& output, const ForwardContext&)>;
  void watch_stages(StageHook hook) { stage_hook_ = std::move(hook); }

  /// The trained parameters [first, end), by index, that belong to one stage of a whole model. Those of the head belong
  /// to the last stage.
  std::pair<int, int> parameters_of_stage(int index) const;
  int stage_count() const { return static_cast<int>(stages_.size()); }
  Module& stage(int index) { return *stages_[static_cast<size_t>(index)].module; }
  /// The head after the last stage; null if the last stage makes the output.
  Head* head() { return head_.get(); }
  /// The name of a stage, "layer1.0": the prefix of its parameters' names. Without a prefix, the name of its first
  /// child or parameter.
  std::string stage_name(int index) const;
  /// Whether the first stage was placed (`has_beginning`) and whether the last one was (`has_end`).
  bool has_beginning() const { return placed_.front().begin == 0; }
  bool has_end() const { return placed_.back().end == stage_count(); }
  /// Whether the placed stages are one range that starts at the first stage.
  bool is_one_beginning() const { return placed_.back().begin == 0; }
  /// How many tensors belong to a range of stages.
  struct Held {
    size_t parameters = 0;  ///< trained
    size_t frozen = 0;      ///< frozen parameters
    size_t states = 0;
    size_t tied_names = 0;

    Held operator+(const Held& more) const {
      return {.parameters = parameters + more.parameters,
              .frozen = frozen + more.frozen,
              .states = states + more.states,
              .tied_names = tied_names + more.tied_names};
    }
    Held operator-(const Held& before) const {
      return {.parameters = parameters - before.parameters,
              .frozen = frozen - before.frozen,
              .states = states - before.states,
              .tied_names = tied_names - before.tied_names};
    }
  };
  /// One entry per range that was placed.
  const std::vector<Held>& held_by_range() const { return held_by_range_; }

  /// The trained parameters: those of the placed stages, then those held only because they are tied to another stage.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// The trained parameters of the placed stages, and those held only because they are tied.
  std::span<Parameter* const> own_parameters() const { return std::span(parameters_).first(own_parameters_); }
  std::span<Parameter* const> borrowed_parameters() const { return std::span(parameters_).subspan(own_parameters_); }
  /// The frozen parameters, in the same order.
  const std::vector<Parameter*>& frozen_parameters() const { return frozen_parameters_; }
  std::span<Parameter* const> own_frozen_parameters() const { return std::span(frozen_parameters_).first(own_frozen_); }
  const std::vector<RunningState*>& states() const { return states_; }
  /// A further name of a parameter.
  struct TiedName {
    std::string name;
    Parameter* parameter;
    int stage;  ///< the stage that uses it by this name; for the head, the last stage
  };
  const std::vector<TiedName>& tied_names() const { return tied_names_; }
  /// The number of trained elements, without the padding of layouts.
  int64_t parameter_elements() const;

  Device& device() const { return *device_; }
  /// The number of elements of the flat buffers of trained weights, padding included.
  int64_t elements() const { return offsets_.back(); }
  /// All trained weights, gradients and running states (which may be empty), flat, padding included. Weights and
  /// gradients are undefined if they are placed or held by runs.
  const Tensor& weights() const { return weights_; }
  const Tensor& gradients() const { return gradients_; }
  /// Gradient elements [begin, end). If gradients are held by runs, the elements must be within one run whose gradients
  /// have been written.
  Tensor gradients(int64_t begin, int64_t end) const;
  /// Calls body(begin, gradients from `begin` on) for all gradients, in order: once for the flat buffer, or once per
  /// run.
  void for_gradients(const std::function<void(int64_t begin, const Tensor& gradients)>& body) const;
  /// The gradients of `own_parameters`.
  Tensor own_gradients() const { return gradients_.window(0, {own_elements_}, Layout::plain); }
  const Tensor& running_states() const { return state_values_; }
  /// The weights in half precision, which operators read; undefined if the model computes in f32.
  const Tensor& weight_copies() const { return weight_copies_; }
  /// Makes the copies again. To be called after every change of the weights except by the optimizer, which writes the
  /// copies itself.
  void refresh_copies();
  /// Makes the copies of frozen weights again. Their values change only when the model is placed or loaded.
  void refresh_frozen_copies();
  /// Where a trained parameter begins in the flat buffers, in elements.
  int64_t offset(const Parameter& parameter) const { return offsets_[static_cast<size_t>(parameter.index())]; }
  /// Where a trained parameter ends, with its padding: where the next one begins.
  int64_t end_offset(const Parameter& parameter) const { return offsets_[static_cast<size_t>(parameter.index()) + 1]; }

  /// Forgets all gradients: the next backward pass overwrites them. Gradients held by runs give their memory back.
  void forget_gradients();
  /// Forgets the gradients of one run. If gradients are held by runs, it must be one of those.
  void forget_gradients(const ParameterRun& run);

 private:
  struct Stage {
    std::string prefix;
    std::unique_ptr<Module> module;
  };

  struct GradientRun {
    ParameterRun run;
    Tensor gradients;  ///< undefined while it has no memory
  };
  void take_gradients_of(GradientRun& held);
  void release_gradients_of(GradientRun& held);
  /// The window of one parameter in a flat buffer, or in the part of a flat buffer that starts at `begin`.
  Tensor window_of(const Parameter& parameter, const Tensor& flat, int64_t begin = 0) const;

  /// How a parameter begins, and its number in the whole model, which keys the draw of its values.
  struct Beginning {
    Initializer initializer;
    uint32_t number = 0;
  };
  using Beginnings = std::unordered_map<const Parameter*, Beginning>;
  /// Notes the tensors of a stage or the head. `here`: the piece is placed.
  void take_in(Component& component, const std::string& prefix, int stage, bool here, Beginnings& beginnings);
  /// Adds a parameter to the trained or the frozen ones.
  void hold(Parameter& parameter, const std::string& name);
  /// Sizes of the flat buffers, in elements.
  struct FlatSizes {
    int64_t trained = 0;
    int64_t frozen = 0;
  };
  /// Takes in the stages of `part` and assigns offsets to their parameters.
  FlatSizes lay_out(const StageRanges& part, Beginnings& beginnings);
  void begin_parameters(std::span<Parameter* const> parameters, const InitializationOptions& options,
                        const Beginnings& beginnings) const;
  /// Gives frozen weights memory and their first values.
  void place_frozen(int64_t elements, const InitializationOptions& options, DType compute,
                    const Beginnings& beginnings);
  /// Binds values and copies to the flat buffers.
  void bind_parameters();
  void bind_frozen();
  void place_states(Device& device);
  Variable through_stages(const Variable& x, const ForwardContext& context, const StageRange& range);
  const StageRange& only_range() const;

  std::vector<Stage> stages_;
  std::unique_ptr<Head> head_;
  StageHook stage_hook_;
  Device* device_ = nullptr;
  StageRanges placed_;
  std::vector<int> stage_ends_;  ///< how many parameters come before the end of each stage
  std::vector<Held> held_by_range_;
  std::vector<Parameter*> parameters_;
  std::vector<Parameter*> frozen_parameters_;
  size_t own_parameters_ = 0;
  size_t own_frozen_ = 0;
  int64_t own_elements_ = 0;
  std::vector<RunningState*> states_;
  std::vector<TiedName> tied_names_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> frozen_offsets_;
  Tensor weights_;
  Tensor weight_copies_;
  Tensor frozen_weights_;
  Tensor frozen_copies_;
  Tensor gradients_;
  std::vector<GradientRun> gradient_runs_;  ///< in order; empty where gradients are one flat buffer
  Tensor state_values_;
};

}  // namespace dptrain::nn
