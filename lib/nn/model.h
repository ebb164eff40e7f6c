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

/// What overrides the initializers of a model's own.
struct InitializationOptions {
  uint64_t seed = 0;
  std::optional<Initializer> weights = {};  ///< of tensors of two or more dimensions
  bool zero_biases = false;                 ///< of one dimension, as far as the model's own are drawn
};

/// Stages [begin, end) of a model; by default all that it has.
struct StageRange {
  int begin = 0;
  int end = std::numeric_limits<int>::max();

  bool operator==(const StageRange&) const = default;
};
/// What a device has of a model: at least one range, in order and apart from each other; `{{}}` is all.
using StageRanges = std::vector<StageRange>;

/// Parameters [first_parameter, end_parameter) of a model, by index. They lie one after the other: as elements
/// [begin, end) of its flat buffers.
struct ParameterRun {
  int first_parameter = 0;
  int end_parameter = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t padding = 0;  ///< elements of 0 behind these that gradients held by runs have in memory
};

/// A whole model: an ordered list of stages, so that it can be cut between any two of them, and its memory on one
/// device: all weights in one flat buffer, all gradients in another or in runs of it, in the order of first use. Frozen
/// weights lie in a buffer of their own, so that whoever updates, sums up or sends the flat ones has to do with what is
/// trained. Of a model that was cut a device holds some of the stages; the others then have no memory there and aren't
/// run.
class Model {
 public:
  /// Adds the next stage; `prefix` begins the names of its parameters ("" or "layer1.0.").
  void add_stage(std::unique_ptr<Module> stage, std::string prefix = {});
  /// What comes after the last stage, where there are several outputs.
  void set_head(std::unique_ptr<Head> head) { head_ = std::move(head); }

  /// Calls `visit` for every parameter of all stages and the head, placed or not, with its name.
  void visit_parameters(const Component::ParameterVisitor& visit);
  /// The same of further names.
  void visit_tied(const Component::TiedVisitor& visit);

  /// Gives every parameter and running state memory on `device` and its first values, and operands of type `compute`.
  /// Called once, after the last stage. Of the stages in `part` alone, where it is given: values are those that they
  /// have in the whole model. A parameter of another stage that one of them has a further name of is held as well,
  /// behind all others.
  void place(Device& device, const InitializationOptions& options, DType compute = DType::f32,
             const StageRanges& part = {{}});

  /// In place of `place`, of trained weights that others keep. Each run of them has memory here from `bind_weights` to
  /// `release_weights`, and gradients as `hold_gradients_by_runs` has them. Frozen weights lie here as ever.
  struct WeightRuns {
    /// Cuts the parameters, whose places are known by then, into runs; all of them, each in one.
    std::function<std::vector<ParameterRun>(const Model&)> cut;
    /// Given the first values of each run, flat, in order and one in memory at a time.
    std::function<void(const ParameterRun&, const Tensor& weights)> begun;
  };
  void place_by_runs(Device& device, const InitializationOptions& options, DType compute, const WeightRuns& runs);
  /// Operators compute with these values of a run, flat, or copies of them in half precision; the other is undefined.
  void bind_weights(const ParameterRun& run, const Tensor& weights, const Tensor& copies);
  /// A run has no memory from here on. Where an operator is about to read it, it calls `take`, which binds it again.
  void release_weights(const ParameterRun& run, const std::function<void()>& take);

  /// Makes it compute with the weights of `lender`, a whole model like it, as `device` sees them; running states are
  /// its own. Before a backward pass gradients are to be bound. In place of `place`.
  void place_beside(Device& device, const Model& lender);
  /// From now on gradients are written to `flat`, which lies as the weights do.
  void bind_gradients(const Tensor& flat);
  /// From now on the gradients of a run have memory only while they are there: a backward pass takes it with the first
  /// of them that it writes, and `forget_gradients` gives it back. `runs`: all parameters, each in one of them.
  /// `gradients()` is undefined then.
  void hold_gradients_by_runs(std::vector<ParameterRun> runs);

  /// Of a model without a head: the logits [N, classes] of images [N, C, H, W], or whatever the last stage makes.
  Variable forward(const Variable& x, const ForwardContext& context);
  /// All outputs: the head's, or the one of `forward`. Of a part without the model's end, what its last stage makes.
  /// The stages that were placed are one range.
  std::vector<Variable> outputs(const Variable& x, const ForwardContext& context);
  /// The same of one of the ranges that were placed.
  std::vector<Variable> outputs(const Variable& x, const ForwardContext& context, const StageRange& range);

  /// Called in training passes with what each stage has made.
  using StageHook = std::function<void(int stage, const Tensor& output, const ForwardContext&)>;
  void watch_stages(StageHook hook) { stage_hook_ = std::move(hook); }

  /// Parameters [first, end) by index that a stage has of its own, of a whole model; the head's are the last stage's.
  std::pair<int, int> parameters_of_stage(int index) const;
  int stage_count() const { return static_cast<int>(stages_.size()); }
  Module& stage(int index) { return *stages_[static_cast<size_t>(index)].module; }
  /// What comes after the last stage; null where that makes the output.
  Head* head() { return head_.get(); }
  /// "layer1.0": the beginning of its parameters' names, or the first part of them that it names itself.
  std::string stage_name(int index) const;
  /// Whether the first stage was placed, and the last one.
  bool has_beginning() const { return placed_.front().begin == 0; }
  bool has_end() const { return placed_.back().end == stage_count(); }
  /// Whether what was placed is one range, from the first stage on.
  bool is_one_beginning() const { return placed_.back().begin == 0; }
  /// How many tensors a range of stages has of its own.
  struct Held {
    size_t parameters = 0;  ///< trained
    size_t frozen = 0;      ///< parameters, too
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
  /// By range that was placed.
  const std::vector<Held>& held_by_range() const { return held_by_range_; }

  /// Those that are trained: of the placed stages, then those that are held because they are tied to another stage's.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// Without the latter.
  std::span<Parameter* const> own_parameters() const { return std::span(parameters_).first(own_parameters_); }
  std::span<Parameter* const> borrowed_parameters() const { return std::span(parameters_).subspan(own_parameters_); }
  /// The frozen ones, in the same order.
  const std::vector<Parameter*>& frozen_parameters() const { return frozen_parameters_; }
  std::span<Parameter* const> own_frozen_parameters() const { return std::span(frozen_parameters_).first(own_frozen_); }
  const std::vector<RunningState*>& states() const { return states_; }
  /// A further name of a parameter.
  struct TiedName {
    std::string name;
    Parameter* parameter;
    int stage;  ///< that uses it by this name; the head's is the last one
  };
  const std::vector<TiedName>& tied_names() const { return tied_names_; }
  /// Elements that are trained, padding of layouts not counted.
  int64_t parameter_elements() const;

  Device& device() const { return *device_; }
  /// Of the flat buffers that the trained weights fill, padding included.
  int64_t elements() const { return offsets_.back(); }
  /// All trained weights, flat, padding included; the same for gradients, and for running states (which may be empty).
  /// Undefined where they are placed, or held, by runs.
  const Tensor& weights() const { return weights_; }
  const Tensor& gradients() const { return gradients_; }
  /// Elements [begin, end) of them, all within one run where gradients are held by runs, and written then.
  Tensor gradients(int64_t begin, int64_t end) const;
  /// Calls body(begin, gradients from there on) until it has seen all of them, in order: all at once, or run by run.
  void for_gradients(const std::function<void(int64_t begin, const Tensor& gradients)>& body) const;
  /// Those of `own_parameters`.
  Tensor own_gradients() const { return gradients_.window(0, {own_elements_}, Layout::plain); }
  const Tensor& running_states() const { return state_values_; }
  /// The weights in half precision, for operators to read; undefined where they compute in f32.
  const Tensor& weight_copies() const { return weight_copies_; }
  /// Makes the copies anew; after all changes of the weights but the optimizer's, which writes them itself.
  void refresh_copies();
  /// The same of the frozen ones, whose values are written where the model is placed and loaded.
  void refresh_frozen_copies();
  /// Where a trained parameter begins in the flat buffers, in elements.
  int64_t offset(const Parameter& parameter) const { return offsets_[static_cast<size_t>(parameter.index())]; }
  /// Where it ends, with what pads it: where the next one begins.
  int64_t end_offset(const Parameter& parameter) const { return offsets_[static_cast<size_t>(parameter.index()) + 1]; }

  /// Forgets all gradients: the next backward pass overwrites them. Those held by runs give their memory back.
  void forget_gradients();
  /// The same of one run: of one that they are held by, where they are.
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
  /// The window of a flat buffer, or of its part from `begin` on, that is a parameter's.
  Tensor window_of(const Parameter& parameter, const Tensor& flat, int64_t begin = 0) const;

  /// How a parameter begins, and its number in the whole model, which its values are drawn by.
  struct Beginning {
    Initializer initializer;
    uint32_t number = 0;
  };
  using Beginnings = std::unordered_map<const Parameter*, Beginning>;
  /// Notes what a piece of a stage has; `here`: it is placed.
  void take_in(Component& component, const std::string& prefix, int stage, bool here, Beginnings& beginnings);
  /// Adds it to the trained or the frozen ones.
  void hold(Parameter& parameter, const std::string& name);
  /// Elements of flat buffers.
  struct FlatSizes {
    int64_t trained = 0;
    int64_t frozen = 0;
  };
  /// Takes in the stages of `part` and lays out their parameters.
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
  std::vector<int> stage_ends_;  ///< parameters before the end of each stage
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
