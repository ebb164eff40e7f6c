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

/// Computes the gradients of an operator's inputs from that of its output, and adds them to the inputs.
using BackwardFunction = std::function<void(const Tensor& output_gradient)>;

/// The same of an operator that adds up by itself what comes back from two readers of its output.
using SumBackwardFunction = std::function<void(ops::SummedGradient output_gradient)>;

/// Called as soon as a parameter's gradient is complete: its last recorded use has contributed.
using GradientReadyHook = std::function<void(Parameter&)>;

/// The record of one forward pass on one device: which operator made which value. Backward walks it from the end.
/// Belongs to one rank thread.
class Tape {
 public:
  enum class Mode {
    record,     ///< keep what backward needs
    recompute,  ///< of it, keep only what costs more than a pass over memory to compute again
    forget,     ///< evaluation: nothing is kept, values end with their last use
  };
  explicit Tape(Mode mode) : mode_(mode) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  bool recording() const { return mode_ != Mode::forget; }

  /// A value that comes from outside. With `requires_gradient`, backward leaves its gradient in it.
  Variable input(Tensor value, bool requires_gradient = false);
  /// A use of a parameter.
  Variable use(Parameter& parameter);
  /// Called with each parameter that is about to be used, before its value is read; not with frozen ones.
  using UseHook = std::function<void(const Parameter&)>;
  void call_before_use(UseHook hook) { before_use_ = std::move(hook); }
  /// The same of the parameters of an operator whose backward function is about to run.
  void call_before_backward(UseHook hook) { before_backward_ = std::move(hook); }
  /// The output of an operator; `backward` is kept where a gradient flows to one of `inputs` and the tape records.
  Variable record(Tensor value, std::initializer_list<Variable> inputs, BackwardFunction backward);
  /// The same for one that adds up by itself what comes back from two readers of its output. `recompute`, where there
  /// is one, computes the output again, bit for bit, from what `backward` keeps anyway.
  Variable record_summing(Tensor value, std::initializer_list<Variable> inputs, SumBackwardFunction backward,
                          std::function<Tensor()> recompute = {});

  /// The operators recorded from now on are of this part of a model: `timeline` shows when backward is at them. Without
  /// a timeline they are of none.
  void enter_part(Timeline* timeline, std::string_view name);

  /// Where a walk back begins: a value, and the gradient of what is minimized with respect to it.
  struct Root {
    Variable output;
    Tensor gradient;
  };
  /// Walks back from `roots` at once, and calls `ready` for each parameter in the order in which their gradients are
  /// completed; the same on every run of such a device. Saved values are released on the way. Once per tape. From a
  /// root that no trained parameter has a part in nothing flows back.
  void backward(std::vector<Root> roots, const GradientReadyHook& ready = {});
  /// The same from one value.
  void backward(const Variable& output, Tensor gradient, const GradientReadyHook& ready = {}) {
    backward({{.output = output, .gradient = std::move(gradient)}}, ready);
  }
  /// The same in two passes, to the same bits, for those who wait for the gradients of values: the first one leaves out
  /// what operators do in_weights_pass, and keeps what that reads. Nobody is told of parameters whose gradients are
  /// complete.
  void backward_data(std::vector<Root> roots);
  void backward_weights();

  /// For backward functions: calls compute(gradient), which gives parameters their gradients from that of an operator's
  /// output, and nothing else; at once, or in backward_weights, in the order of these calls. A parameter that several
  /// operators use gets all of its gradient so, or none.
  template <class Compute>
  void in_weights_pass(const Tensor& gradient, Compute&& compute) {
    if (postpones_weights_)
      postponed_.push_back({.gradient = gradient, .compute = std::forward<Compute>(compute), .part = walked_part_});
    else
      compute(gradient);
  }
  /// Whether nobody else would hold a tensor's memory if backward_weights had nothing left to do.
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

  /// The output's variable; nothing is kept where no gradient flows to it.
  Variable add_node(Tensor value, std::initializer_list<Variable> inputs, SumBackwardFunction backward);
  void finish_use(Parameter& parameter, const GradientReadyHook& ready);
  /// A walk comes to this part, which `shown` shows.
  void walk_into(const std::shared_ptr<const Part>& part, std::optional<InSpan>& shown);

  Mode mode_;
  UseHook before_use_;
  UseHook before_backward_;
  std::shared_ptr<const Part> part_;  ///< that is entered; null: none
  std::vector<Node> nodes_;
  std::unordered_map<Parameter*, int> pending_uses_;
  std::shared_ptr<const Part> walked_part_;  ///< that backward is at
  bool postpones_weights_ = false;
  std::vector<Postponed> postponed_;
};

}  // namespace dptrain
