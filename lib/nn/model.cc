#include "nn/model.h"

#include <utility>

#include "base/check.h"
#include "ops/reorder.h"

namespace dptrain::nn {
namespace {

/// Parameters begin at multiples of a cache line, so that vector loads of one never touch another.
constexpr int64_t kAlignElements = 16;

int64_t aligned(int64_t elements) { return (elements + kAlignElements - 1) / kAlignElements * kAlignElements; }

void write_values(const Tensor& to, const std::vector<float>& values) {
  ops::reorder_into(Tensor::from(to.device(), to.shape(), values, MemoryPurpose::workspace), to);
}

}  // namespace

void Model::add_stage(std::unique_ptr<Module> stage, std::string prefix) {
  stages_.push_back({std::move(prefix), std::move(stage)});
}

void Model::take_in(Component& component, const std::string& prefix, std::vector<Initializer>& initializers) {
  component.visit_parameters(
      [&](const std::string& name, Parameter& parameter, const Initializer& initializer) {
        parameter.set_identity(name, static_cast<int>(parameters_.size()));
        parameters_.push_back(&parameter);
        initializers.push_back(initializer);
      },
      prefix);
  component.visit_states(
      [&](const std::string& name, RunningState& state) {
        state.name = name;
        states_.push_back(&state);
      },
      prefix);
  component.visit_tied([&](const std::string& name,
                           Parameter& parameter) { tied_names_.push_back({.name = name, .parameter = &parameter}); },
                       prefix);
}

void Model::place(Device& device, const InitializationOptions& options, DType compute) {
  DPTRAIN_CHECK(!weights_.defined(), "a model is placed once");
  std::vector<Initializer> initializers;
  for (auto& [prefix, module] : stages_) take_in(*module, prefix, initializers);
  if (head_ != nullptr) take_in(*head_, {}, initializers);
  int64_t elements = 0;
  for (const Parameter* parameter : parameters_) {
    offsets_.push_back(elements);
    elements += aligned(storage_elements(parameter->shape(), parameter->layout()));
  }
  weights_ = Tensor::zeros(device, {elements}, {.purpose = MemoryPurpose::weights});
  gradients_ = Tensor::zeros(device, {elements}, {.purpose = MemoryPurpose::gradients});
  if (compute != DType::f32)
    weight_copies_ = Tensor::zeros(device, {elements}, {.dtype = compute, .purpose = MemoryPurpose::weights});
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = *parameters_[i];
    parameter.bind(weights_.window(offsets_[i], parameter.shape(), parameter.layout()),
                   gradients_.window(offsets_[i], parameter.shape(), parameter.layout()));
    if (weight_copies_.defined())
      parameter.bind_copy(weight_copies_.window(offsets_[i], parameter.shape(), parameter.layout()));
    const KeyedRandom random(options.seed, RandomPurpose::initialize, 0, static_cast<uint32_t>(i));
    const Initializer& initializer =
        parameter.shape().rank() > 1 ? options.weights.value_or(initializers[i]) : initializers[i];
    write_values(parameter.value(), initial_values(initializer, parameter.shape(), random));
  }
  refresh_copies();

  int64_t state_elements = 0;
  for (const RunningState* state : states_) state_elements += aligned(state->shape.elements());
  state_values_ = Tensor::zeros(device, {state_elements}, {.purpose = MemoryPurpose::weights});
  int64_t offset = 0;
  for (RunningState* state : states_) {
    state->value = state_values_.window(offset, state->shape, Layout::plain);
    offset += aligned(state->shape.elements());
    write_values(state->value, std::vector<float>(static_cast<size_t>(state->shape.elements()), state->initial));
  }
}

Variable Model::through_stages(const Variable& x, const ForwardContext& context) {
  Variable value = x;
  for (auto& stage : stages_) value = stage.module->forward(value, context);
  return value;
}

Variable Model::forward(const Variable& x, const ForwardContext& context) {
  DPTRAIN_CHECK(head_ == nullptr, "a model of several outputs asked for one");
  return through_stages(x, context);
}

std::vector<Variable> Model::outputs(const Variable& x, const ForwardContext& context) {
  Variable last = through_stages(x, context);
  if (head_ == nullptr) return {std::move(last)};
  return head_->outputs(last, context);
}

void Model::refresh_copies() {
  if (weight_copies_.defined()) ops::reorder_into(weights_, weight_copies_);
}

int64_t Model::parameter_elements() const {
  int64_t elements = 0;
  for (const Parameter* parameter : parameters_) elements += parameter->shape().elements();
  return elements;
}

void Model::forget_gradients() {
  for (Parameter* parameter : parameters_) parameter->forget_gradient();
}

}  // namespace dptrain::nn
