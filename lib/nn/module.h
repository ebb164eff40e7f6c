#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/sum_over_devices.h"
#include "autograd/tape.h"
#include "nn/initializer.h"
#include "nn/text_inputs.h"

namespace dptrain::nn {

/// What a forward pass needs to know besides its input. Nothing in it tells a module how many devices there are.
struct ForwardContext {
  Tape& tape;
  bool training = false;
  uint64_t seed = 0;
  /// The keys of random draws besides the seed, on the device: the epoch, i32 [1], and the samples' numbers in the data
  /// set, i64 [N].
  Tensor epoch = {};
  Tensor sample_ids = {};
  TextInputs text = {};  ///< for models of text
  /// The devices whose samples batch norms take their statistics over in training; null: the samples of the input.
  autograd::SumOverDevices* statistics = nullptr;
};

/// A tensor of a model that is saved with it but isn't trained: running statistics.
struct RunningState {
  RunningState(Shape state_shape, float initial_value) : shape(state_shape), initial(initial_value) {}

  Shape shape;
  float initial;
  std::string name;
  Tensor value;
};

class Module;

/// The common part of all pieces of a model: parameters and running states, by name. A parameter has its shape and its
/// initializer when the piece is made, and memory once the whole model is placed on a device.
class Component {
 public:
  virtual ~Component() = default;
  Component(const Component&) = delete;
  Component& operator=(const Component&) = delete;

  // These functions are called with dotted names.
  using ParameterVisitor = std::function<void(const std::string& name, Parameter&, const Initializer&)>;
  using StateVisitor = std::function<void(const std::string& name, RunningState&)>;
  using TiedVisitor = std::function<void(const std::string& name, Parameter&)>;

  /// Calls `visit` for every parameter with its dotted name and initializer, in the order of registration.
  void visit_parameters(const ParameterVisitor& visit, const std::string& prefix = {});
  /// Calls `visit` for every running state.
  void visit_states(const StateVisitor& visit, const std::string& prefix = {});
  /// Calls `visit` for every further name of a parameter that another piece owns.
  void visit_tied(const TiedVisitor& visit, const std::string& prefix = {});
  /// The name of the first child, or of the first parameter; empty if there is neither.
  std::string first_name() const;

 protected:
  Component() = default;

  Parameter& add_parameter(std::string name, const Shape& shape, const Initializer& initializer,
                           Layout layout = Layout::plain, Operand operand = Operand::copy);
  RunningState& add_state(std::string name, const Shape& shape, float initial);
  /// Adds a further name of a parameter. Checkpoints hold the parameter under this name too.
  void add_tied(std::string name, Parameter& parameter) { tied_.push_back({std::move(name), &parameter}); }
  template <class M, class... Arguments>
  M& add_child(std::string name, Arguments&&... arguments) {
    auto child = std::make_unique<M>(std::forward<Arguments>(arguments)...);
    M& reference = *child;
    children_.push_back({std::move(name), std::move(child)});
    return reference;
  }
  /// Adds a child that was made elsewhere. If the name is empty, the names of the child's parts have no prefix of their
  /// own.
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
  struct Tied {
    std::string name;
    Parameter* parameter;
  };
  struct Child {
    std::string name;
    std::unique_ptr<Component> component;
  };

  std::vector<OwnParameter> parameters_;
  std::vector<OwnState> states_;
  std::vector<Tied> tied_;
  std::vector<Child> children_;
};

/// A piece of a model with a forward function over Variables, written for one device.
class Module : public Component {
 public:
  virtual Variable forward(const Variable& x, const ForwardContext& context) = 0;
};

/// The end of a model that has several outputs.
class Head : public Component {
 public:
  virtual std::vector<Variable> outputs(const Variable& x, const ForwardContext& context) = 0;
};

}  // namespace dptrain::nn
