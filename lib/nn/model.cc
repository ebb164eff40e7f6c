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

void Model::place(Device& device, const InitializationOptions& options, DType compute) {
  DPTRAIN_CHECK(!weights_.defined(), "a model is placed once");
  std::vector<Initializer> initializers;
  int64_t elements = 0;
  for (auto& [prefix, module] : stages_) {
    module->visit_parameters(
        [&](const std::string& name, Parameter& parameter, const Initializer& own) {
          parameter.set_identity(name, static_cast<int>(parameters_.size()));
          parameters_.push_back(&parameter);
          offsets_.push_back(elements);
          elements += aligned(storage_elements(parameter.shape(), parameter.layout()));
          initializers.push_back(parameter.shape().rank() > 1 ? options.weights.value_or(own) : own);
        },
        prefix);
    module->visit_states(
        [&](const std::string& name, RunningState& state) {
          state.name = name;
          states_.push_back(&state);
        },
        prefix);
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
    write_values(parameter.value(), initial_values(initializers[i], parameter.shape(), random));
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

Variable Model::forward(const Variable& x, const ForwardContext& context) {
  Variable value = x;
  for (auto& stage : stages_) value = stage.module->forward(value, context);
  return value;
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
