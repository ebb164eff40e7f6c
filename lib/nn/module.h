#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/tape.h"
#include "nn/initializer.h"

namespace dptrain::nn {

/// What a forward pass needs to know beside its input. Nothing in it tells a module how many devices there are.
struct ForwardContext {
  Tape& tape;
  bool training = false;
  uint64_t seed = 0;
  /// What random draws are keyed by beside the seed, on the device: i32 [1], and i64 [N], the samples of the batch by
  /// their numbers in the data set.
  Tensor epoch = {};
  Tensor sample_ids = {};
};

/// A tensor of a model that is saved with it but not trained: running statistics.
struct RunningState {
  RunningState(Shape state_shape, float initial_value) : shape(state_shape), initial(initial_value) {}

  Shape shape;
  float initial;
  std::string name;
  Tensor value;
};

/// A piece of a model: parameters, running state, and a forward function over Variables, written for one device.
/// Parameters have shapes and initializers when a module is made, and memory once the whole model is placed on a
/// device.
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  virtual Variable forward(const Variable& x, const ForwardContext& context) = 0;

  /// Calls `visit` for every parameter with its dotted name and initializer, in the order of registration.
  using ParameterVisitor = std::function<void(const std::string& name, Parameter&, const Initializer&)>;
  void visit_parameters(const ParameterVisitor& visit, const std::string& prefix = {});
  /// The same for running state.
  using StateVisitor = std::function<void(const std::string& name, RunningState&)>;
  void visit_states(const StateVisitor& visit, const std::string& prefix = {});

 protected:
  Module() = default;

  Parameter& add_parameter(std::string name, const Shape& shape, const Initializer& initializer,
                           Layout layout = Layout::plain, Operand operand = Operand::copy);
  RunningState& add_state(std::string name, const Shape& shape, float initial);
  template <class M, class... Arguments>
  M& add_child(std::string name, Arguments&&... arguments) {
    auto child = std::make_unique<M>(std::forward<Arguments>(arguments)...);
    M& reference = *child;
    children_.push_back({std::move(name), std::move(child)});
    return reference;
  }
  /// The same of a child that was made elsewhere.
  Module& add_child(std::string name, std::unique_ptr<Module> child);

 private:
  struct OwnParameter {
    std::string name;
    std::unique_ptr<Parameter> parameter;
    Initializer initializer;
  };
  struct OwnState {
    std::string name;
    std::unique_ptr<RunningState> state;
  };
  struct Child {
    std::string name;
    std::unique_ptr<Module> module;
  };

  std::vector<OwnParameter> parameters_;
  std::vector<OwnState> states_;
  std::vector<Child> children_;
};

}  // namespace dptrain::nn
