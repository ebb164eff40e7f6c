#include "nn/module.h"

namespace dptrain::nn {
namespace {

/// The prefix of the names of a child's parts.
std::string inside(const std::string& prefix, const std::string& name) {
  return name.empty() ? prefix : prefix + name + ".";
}

}  // namespace

Parameter& Component::add_parameter(std::string name, const Shape& shape, const Initializer& initializer, Layout layout,
                                    Operand operand) {
  parameters_.push_back({std::move(name), std::make_unique<Parameter>(shape, layout, operand), initializer});
  return *parameters_.back().parameter;
}

RunningState& Component::add_state(std::string name, const Shape& shape, float initial) {
  states_.push_back({std::move(name), std::make_unique<RunningState>(shape, initial)});
  return *states_.back().state;
}

Module& Component::add_child(std::string name, std::unique_ptr<Module> child) {
  Module& reference = *child;
  children_.push_back({std::move(name), std::move(child)});
  return reference;
}

std::string Component::first_name() const {
  if (!children_.empty()) return children_.front().name;
  return parameters_.empty() ? std::string() : parameters_.front().name;
}

void Component::visit_parameters(const ParameterVisitor& visit, const std::string& prefix) {
  for (auto& [name, parameter, initializer] : parameters_) visit(prefix + name, *parameter, initializer);
  for (auto& [name, child] : children_) child->visit_parameters(visit, inside(prefix, name));
}

void Component::visit_states(const StateVisitor& visit, const std::string& prefix) {
  for (auto& [name, state] : states_) visit(prefix + name, *state);
  for (auto& [name, child] : children_) child->visit_states(visit, inside(prefix, name));
}

void Component::visit_tied(const TiedVisitor& visit, const std::string& prefix) {
  for (auto& [name, parameter] : tied_) visit(prefix + name, *parameter);
  for (auto& [name, child] : children_) child->visit_tied(visit, inside(prefix, name));
}

}  // namespace dptrain::nn
