#include "nn/module.h"

namespace dptrain::nn {

Parameter& Module::add_parameter(std::string name, const Shape& shape, const Initializer& initializer, Layout layout,
                                 Operand operand) {
  parameters_.push_back({std::move(name), std::make_unique<Parameter>(shape, layout, operand), initializer});
  return *parameters_.back().parameter;
}

RunningState& Module::add_state(std::string name, const Shape& shape, float initial) {
  states_.push_back({std::move(name), std::make_unique<RunningState>(shape, initial)});
  return *states_.back().state;
}

Module& Module::add_child(std::string name, std::unique_ptr<Module> child) {
  Module& reference = *child;
  children_.push_back({std::move(name), std::move(child)});
  return reference;
}

void Module::visit_parameters(const ParameterVisitor& visit, const std::string& prefix) {
  for (auto& [name, parameter, initializer] : parameters_) visit(prefix + name, *parameter, initializer);
  for (auto& [name, module] : children_) module->visit_parameters(visit, prefix + name + ".");
}

void Module::visit_states(const StateVisitor& visit, const std::string& prefix) {
  for (auto& [name, state] : states_) visit(prefix + name, *state);
  for (auto& [name, module] : children_) module->visit_states(visit, prefix + name + ".");
}

}  // namespace dptrain::nn
