#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "autograd/variable.h"
#include "device/timeline.h"

namespace dptrain {

/// Computes the gradients of an operator's inputs from the gradient of its output, and adds them to the inputs.
using BackwardFunction = std::function<void(const Tensor& output_gradient)>;

/// A BackwardFunction for an operator that itself adds up the gradients from two readers of its output.
using SumBackwardFunction = std::function<void(ops::SummedGradient output_gradient)>;

/// Called as soon as a parameter's gradient is complete: its last recorded use has contributed.
using GradientReadyHook = std::function<void(Parameter&)>;

/// The record of one forward pass on one device: which operator made which value. Backward walks it from the end.
/// Belongs to one rank thread.
class Tape {
 public:
  enum class Mode {
    record,     ///< keep what backward needs
    recompute,  ///< keep of that only what costs more than a pass over memory to compute again
    forget,     ///< for evaluation: keep nothing; a value is released after its last use
  };
  explicit Tape(Mode mode) : mode_(mode) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  bool recording() const { return mode_ != Mode::forget; }

  /// Adds a value from outside the tape. With `requires_gradient`, backward leaves the gradient in it.
  Variable input(Tensor value, bool requires_gradient = false);
  /// Records a use of a parameter.
  Variable use(Parameter& parameter);
  /// Called with each parameter that is about to be used, before its value is read. Frozen parameters are skipped.
  using UseHook = std::function<void(const Parameter&)>;
  void call_before_use(UseHook hook) { before_use_ = std::move(hook); }
  /// Sets a hook that is called with the parameters of an operator whose backward function is about to run.
  void call_before_backward(UseHook hook) { before_backward_ = std::move(hook); }
  /// Returns the output of an operator. `backward` is kept if the tape records and a gradient flows to one of `inputs`.
  Variable record(Tensor value, std::initializer_list<Variable> inputs, BackwardFunction backward);
  /// `record` for an operator that itself adds up the gradients from two readers of its output. `recompute`, if given,
  /// computes the output again, bit for bit, from what `backward` keeps anyway.
  Variable record_summing(Tensor value, std::initializer_list<Variable> inputs, SumBackwardFunction backward,
                          std::function<Tensor()> recompute = {});

  /// Assigns the operators recorded from now on to this part of a model, so that `timeline` shows when backward reaches
  /// them. Without a timeline they belong to no part.
  void enter_part(Timeline* timeline, std::string_view name);

  /// A starting point of the walk back: a value, and the gradient of the minimized total with respect to it.
  struct Root {
    Variable output;
    Tensor gradient;
  };
  /// Walks back from all `roots` at once. Calls `ready` for each parameter in the order in which the gradients are
  /// completed; the order is the same on every run with such a device. Saved values are released on the way. To be
  /// called once per tape. Nothing flows back from a root that depends on no trained parameter.
  void backward(std::vector<Root> roots, const GradientReadyHook& ready = {});
  /// Walks back from one value.
  void backward(const Variable& output, Tensor gradient, const GradientReadyHook& ready = {}) {
    backward({{.output = output, .gradient = std::move(gradient)}}, ready);
  }
  /// Splits `backward` into two passes with bit-identical results, for callers that wait for the gradients of values.
  /// The first pass leaves out the work that operators do in_weights_pass, and keeps what that work reads; the second
  /// pass does it. No hook reports parameters whose gradients are complete.
  void backward_data(std::vector<Root> roots);
  void backward_weights();

  /// For backward functions: calls compute(gradient), which computes the gradients of parameters from the gradient of
  /// an operator's output, and does nothing else. The call happens at once, or in backward_weights in the order of
  /// these calls. If several operators use a parameter, either all of them or none of them compute its gradient this
  /// way.
  template <class Compute>
  void in_weights_pass(const Tensor& gradient, Compute&& compute) {
    if (postpones_weights_)
      postponed_.push_back({.gradient = gradient, .compute = std::forward<Compute>(compute), .part = walked_part_});
    else
      compute(gradient);
  }
  /// Whether the caller would be the only holder of a tensor's memory if backward_weights had nothing left to do.
  bool holds_alone(const Tensor& tensor) const;

 private:
  struct Part {
    Timeline* timeline;
    std::string name;
  };
  struct Node {
    Variable output;  ///< without its value
    std::vector<Parameter*> parameters;
    SumBackwardFunction backward;
    std::shared_ptr<const Part> part = {};
  };

  struct Postponed {
    Tensor gradient;
    std::function<void(const Tensor& gradient)> compute;
    std::shared_ptr<const Part> part;
  };

  /// Returns the output's variable. Nothing is kept if no gradient flows to it.
  Variable add_node(Tensor value, std::initializer_list<Variable> inputs, SumBackwardFunction backward);
  void finish_use(Parameter& parameter, const GradientReadyHook& ready);
  /// Notes that a walk has reached this part; `shown` displays it on the timeline.
  void walk_into(const std::shared_ptr<const Part>& part, std::optional<InSpan>& shown);

  Mode mode_;
  UseHook before_use_;
  UseHook before_backward_;
  std::shared_ptr<const Part> part_;  ///< the part entered last; null: none
  std::vector<Node> nodes_;
  std::unordered_map<Parameter*, int> pending_uses_;
  std::shared_ptr<const Part> walked_part_;  ///< the part that backward is in
  bool postpones_weights_ = false;
  std::vector<Postponed> postponed_;
};

}  // namespace dptrain
