#include "autograd/tape.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace dptrain {

Variable Tape::input(Tensor value, bool requires_gradient) {
  auto place = std::make_shared<Variable::Place>();
  place->tape = this;
  place->shape = value.shape();
  place->requires_gradient = requires_gradient && recording();
  return Variable(std::move(value), std::move(place));
}

Variable Tape::use(Parameter& parameter) {
  if (before_use_ && !parameter.is_frozen()) before_use_(parameter);
  Variable variable = input(Tensor(), !parameter.is_frozen());
  variable.place_->shape = parameter.shape();
  variable.place_->parameter = &parameter;
  return variable;
}

Variable Tape::record(Tensor value, std::initializer_list<Variable> inputs, BackwardFunction backward) {
  return add_node(std::move(value), inputs,
                  [backward = std::move(backward)](const ops::SummedGradient& gradient) { backward(gradient.first); });
}

Variable Tape::record_summing(Tensor value, std::initializer_list<Variable> inputs, SumBackwardFunction backward,
                              std::function<Tensor()> recompute) {
  Variable output = add_node(std::move(value), inputs, std::move(backward));
  output.place_->sums_gradient = true;
  if (mode_ == Mode::recompute && output.requires_gradient()) output.place_->recompute = std::move(recompute);
  return output;
}

Variable Tape::add_node(Tensor value, std::initializer_list<Variable> inputs, SumBackwardFunction backward) {
  Node node;
  bool requires_gradient = false;
  for (const Variable& input : inputs) {
    if (!input.defined()) continue;
    DPTRAIN_CHECK(&input.tape() == this, "a value of another tape");
    requires_gradient |= input.requires_gradient();
    if (input.place_->parameter != nullptr && input.requires_gradient())
      node.parameters.push_back(input.place_->parameter);
  }
  Variable output = input(std::move(value), requires_gradient);
  if (!recording() || !requires_gradient) return output;
  for (Parameter* parameter : node.parameters) ++pending_uses_[parameter];
  node.output = output.without_value();
  node.backward = std::move(backward);
  node.part = part_;
  nodes_.push_back(std::move(node));
  return output;
}

void Tape::enter_part(Timeline* timeline, std::string_view name) {
  part_ = timeline == nullptr ? nullptr : std::make_shared<const Part>(Part{timeline, std::string(name)});
}

void Tape::backward(std::vector<Root> roots, const GradientReadyHook& ready) {
  for (auto& [output, gradient] : roots) {
    DPTRAIN_CHECK(recording(), "backward from a value that was not recorded");
    output.add_gradient(std::move(gradient));
  }
  roots.clear();
  std::optional<InSpan> shown;
  while (!nodes_.empty()) {
    // The node is taken off the tape before it runs, so that what it saved is released as soon as it has run.
    Node node = std::move(nodes_.back());
    nodes_.pop_back();
    walk_into(node.part, shown);
    if (before_backward_)
      for (const Parameter* parameter : node.parameters) before_backward_(*parameter);
    ops::SummedGradient incoming = std::exchange(node.output.gathered(), {});
    // A value that no root depends on has no gradient. The uses of the parameters that made it end here all the same.
    if (incoming.first.defined()) node.backward(std::move(incoming));
    node.backward = nullptr;
    for (Parameter* parameter : node.parameters) finish_use(*parameter, ready);
  }
  walked_part_ = nullptr;
}

void Tape::backward_data(std::vector<Root> roots) {
  postpones_weights_ = true;
  backward(std::move(roots));
  postpones_weights_ = false;
}

void Tape::backward_weights() {
  std::optional<InSpan> shown;
  for (Postponed& postponed : postponed_) {
    walk_into(postponed.part, shown);
    // As in `backward`, what the computation kept is released as soon as it has run.
    const auto compute = std::exchange(postponed.compute, nullptr);
    compute(std::exchange(postponed.gradient, Tensor()));
  }
  postponed_.clear();
  walked_part_ = nullptr;
}

bool Tape::holds_alone(const Tensor& tensor) const {
  return tensor.holders() == 1 + std::ranges::count_if(postponed_, [&](const Postponed& postponed) {
                               return postponed.gradient.shares_memory_with(tensor);
                             });
}

void Tape::walk_into(const std::shared_ptr<const Part>& part, std::optional<InSpan>& shown) {
  if (part == walked_part_) return;
  walked_part_ = part;
  shown.reset();
  if (part) shown.emplace(part->timeline, part->name);
}

void Tape::finish_use(Parameter& parameter, const GradientReadyHook& ready) {
  const auto uses = pending_uses_.find(&parameter);
  if (--uses->second > 0) return;
  pending_uses_.erase(uses);
  if (ready && parameter.has_gradient()) ready(parameter);
}

}  // namespace dptrain
