#include "nn/model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ops/reorder.h"

namespace dptrain::nn {
namespace {

/// Parameters begin at multiples of a cache line, so that vector loads from one parameter never touch another.
constexpr int64_t kAlignElements = 16;

int64_t aligned(int64_t elements) { return (elements + kAlignElements - 1) / kAlignElements * kAlignElements; }

/// Where each parameter begins in a flat buffer that holds them all; then the end of the buffer.
std::vector<int64_t> offsets_of(const std::vector<Parameter*>& parameters) {
  std::vector<int64_t> offsets = {0};
  for (const Parameter* parameter : parameters)
    offsets.push_back(offsets.back() + aligned(storage_elements(parameter->shape(), parameter->layout())));
  return offsets;
}

void write_values(const Tensor& to, const std::vector<float>& values) {
  ops::reorder_into(Tensor::from(to.device(), to.shape(), values, MemoryPurpose::workspace), to);
}

}  // namespace

void Model::add_stage(std::unique_ptr<Module> stage, std::string prefix) {
  stages_.push_back({std::move(prefix), std::move(stage)});
}

void Model::visit_parameters(const Component::ParameterVisitor& visit) {
  for (const Stage& stage : stages_) stage.module->visit_parameters(visit, stage.prefix);
  if (head_ != nullptr) head_->visit_parameters(visit);
}

void Model::visit_tied(const Component::TiedVisitor& visit) {
  for (const Stage& stage : stages_) stage.module->visit_tied(visit, stage.prefix);
  if (head_ != nullptr) head_->visit_tied(visit);
}

void Model::take_in(Component& component, const std::string& prefix, int stage, bool here, Beginnings& beginnings) {
  component.visit_parameters(
      [&](const std::string& name, Parameter& parameter, const Initializer& initializer) {
        const auto number = static_cast<uint32_t>(beginnings.size());
        beginnings.emplace(&parameter, Beginning{.initializer = initializer, .number = number});
        parameter.set_identity(name, -1);
        if (here) hold(parameter, name);
      },
      prefix);
  if (!here) return;
  component.visit_states(
      [&](const std::string& name, RunningState& state) {
        state.name = name;
        states_.push_back(&state);
      },
      prefix);
  component.visit_tied(
      [&](const std::string& name, Parameter& parameter) {
        tied_names_.push_back({.name = name, .parameter = &parameter, .stage = stage});
      },
      prefix);
}

void Model::hold(Parameter& parameter, const std::string& name) {
  std::vector<Parameter*>& held = parameter.is_frozen() ? frozen_parameters_ : parameters_;
  parameter.set_identity(name, static_cast<int>(held.size()));
  held.push_back(&parameter);
}

Model::FlatSizes Model::lay_out(const StageRanges& part, Beginnings& beginnings) {
  DPTRAIN_CHECK(!weights_.defined(), "a model is placed once");
  for (const StageRange& range : part) {
    DPTRAIN_CHECK(range.begin < range.end && (placed_.empty() || placed_.back().end < range.begin),
                  "stages {} to {} are no range behind the others", range.begin, range.end);
    placed_.push_back({.begin = range.begin, .end = std::min(range.end, stage_count())});
  }
  DPTRAIN_CHECK(!placed_.empty(), "a part of a model has stages");
  const auto held = [this] {
    return Held{.parameters = parameters_.size(),
                .frozen = frozen_parameters_.size(),
                .states = states_.size(),
                .tied_names = tied_names_.size()};
  };
  auto range = placed_.begin();
  Held before;
  for (int i = 0; i < stage_count(); ++i) {
    Stage& stage = stages_[static_cast<size_t>(i)];
    take_in(*stage.module, stage.prefix, i, range != placed_.end() && range->begin <= i, beginnings);
    const bool is_last = i + 1 == stage_count();
    if (is_last && head_ != nullptr) take_in(*head_, {}, i, has_end(), beginnings);
    stage_ends_.push_back(static_cast<int>(parameters_.size()));
    if (range == placed_.end() || i + 1 < range->end) continue;
    held_by_range_.push_back(held() - before);
    before = held();
    ++range;
  }
  own_parameters_ = parameters_.size();
  own_frozen_ = frozen_parameters_.size();
  for (const TiedName& tied : tied_names_)
    if (tied.parameter->index() < 0) hold(*tied.parameter, tied.parameter->name());
  offsets_ = offsets_of(parameters_);
  frozen_offsets_ = offsets_of(frozen_parameters_);
  own_elements_ = offsets_[own_parameters_];
  return {.trained = offsets_.back(), .frozen = frozen_offsets_.back()};
}

void Model::place(Device& device, const InitializationOptions& options, DType compute, const StageRanges& part) {
  Beginnings beginnings;
  const auto [trained, frozen] = lay_out(part, beginnings);
  device_ = &device;
  weights_ = Tensor::zeros(device, {trained}, {.purpose = MemoryPurpose::weights});
  bind_gradients(Tensor::zeros(device, {trained}, {.purpose = MemoryPurpose::gradients}));
  if (compute != DType::f32)
    weight_copies_ = Tensor::zeros(device, {trained}, {.dtype = compute, .purpose = MemoryPurpose::weights});
  bind_parameters();
  begin_parameters(parameters_, options, beginnings);
  refresh_copies();
  place_frozen(frozen, options, compute, beginnings);
  place_states(device);
}

void Model::place_frozen(int64_t elements, const InitializationOptions& options, DType compute,
                         const Beginnings& beginnings) {
  if (elements == 0) return;
  frozen_weights_ = Tensor::zeros(device(), {elements}, {.purpose = MemoryPurpose::weights});
  if (compute != DType::f32)
    frozen_copies_ = Tensor::zeros(device(), {elements}, {.dtype = compute, .purpose = MemoryPurpose::weights});
  bind_frozen();
  begin_parameters(frozen_parameters_, options, beginnings);
  refresh_frozen_copies();
}

void Model::place_beside(Device& device, const Model& lender) {
  Beginnings beginnings;
  const auto [trained, frozen] = lay_out({{}}, beginnings);
  const int64_t lent_frozen = lender.frozen_weights_.defined() ? lender.frozen_weights_.elements() : 0;
  DPTRAIN_CHECK(trained == lender.weights().elements() && frozen == lent_frozen, "{} and {} elements beside {} and {}",
                trained, frozen, lender.weights().elements(), lent_frozen);
  device_ = &device;
  const auto seen = [&device](const Tensor& lent) { return lent.defined() ? lent.seen_from(device) : Tensor(); };
  weights_ = seen(lender.weights_);
  weight_copies_ = seen(lender.weight_copies_);
  frozen_weights_ = seen(lender.frozen_weights_);
  frozen_copies_ = seen(lender.frozen_copies_);
  bind_gradients(lender.gradients().seen_from(device));
  bind_parameters();
  bind_frozen();
  place_states(device);
}

void Model::bind_parameters() {
  for (Parameter* parameter : parameters_) {
    parameter->bind(window_of(*parameter, weights_));
    if (weight_copies_.defined()) parameter->bind_copy(window_of(*parameter, weight_copies_));
  }
}

void Model::bind_frozen() {
  for (Parameter* parameter : frozen_parameters_) {
    const int64_t begin = frozen_offsets_[static_cast<size_t>(parameter->index())];
    const auto window = [&](const Tensor& flat) { return flat.window(begin, parameter->shape(), parameter->layout()); };
    parameter->bind(window(frozen_weights_));
    if (frozen_copies_.defined()) parameter->bind_copy(window(frozen_copies_));
  }
}

void Model::begin_parameters(std::span<Parameter* const> parameters, const InitializationOptions& options,
                             const Beginnings& beginnings) const {
  if (!device().computes()) return;
  for (const Parameter* parameter : parameters) {
    const Beginning& beginning = beginnings.at(parameter);
    const KeyedRandom random(options.seed, RandomPurpose::initialize, 0, beginning.number);
    Initializer initializer = beginning.initializer;
    if (parameter->shape().rank() > 1)
      initializer = options.weights.value_or(initializer);
    else if (options.zero_biases && initializer.kind != Initializer::Kind::constant)
      initializer = Initializer::constant(0);
    write_values(parameter->value(), initial_values(initializer, parameter->shape(), random));
  }
}

void Model::place_states(Device& device) {
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

std::string Model::stage_name(int index) const {
  const Stage& stage = stages_[static_cast<size_t>(index)];
  if (stage.prefix.empty()) return stage.module->first_name();
  return stage.prefix.substr(0, stage.prefix.size() - 1);
}

Variable Model::through_stages(const Variable& x, const ForwardContext& context, const StageRange& range) {
  Variable value = x;
  Timeline* timeline = context.training ? x.value().device().timeline() : nullptr;
  if (timeline != nullptr && !timeline->is_wanted()) timeline = nullptr;
  for (int i = range.begin; i < range.end; ++i) {
    const std::string name = timeline != nullptr ? stage_name(i) : "";
    const InSpan span(timeline, name);
    x.tape().enter_part(timeline, name);
    value = stage(i).forward(value, context);
    if (stage_hook_ && context.training) stage_hook_(i, value.value(), context);
  }
  x.tape().enter_part(nullptr, {});
  return value;
}

Variable Model::forward(const Variable& x, const ForwardContext& context) {
  DPTRAIN_CHECK(head_ == nullptr, "a model of several outputs asked for one");
  return through_stages(x, context, only_range());
}

std::vector<Variable> Model::outputs(const Variable& x, const ForwardContext& context) {
  return outputs(x, context, only_range());
}

std::vector<Variable> Model::outputs(const Variable& x, const ForwardContext& context, const StageRange& range) {
  const StageRange clipped{.begin = range.begin, .end = std::min(range.end, stage_count())};
  DPTRAIN_CHECK(std::ranges::count(placed_, clipped) == 1, "stages {} to {} were not placed", range.begin, clipped.end);
  Variable last = through_stages(x, context, clipped);
  if (head_ == nullptr || clipped.end < stage_count()) return {std::move(last)};
  return head_->outputs(last, context);
}

const StageRange& Model::only_range() const {
  DPTRAIN_CHECK(placed_.size() == 1, "{} ranges of stages are run one at a time", placed_.size());
  return placed_.front();
}

void Model::refresh_copies() {
  if (weight_copies_.defined()) ops::reorder_into(weights_, weight_copies_);
}

void Model::refresh_frozen_copies() {
  if (frozen_copies_.defined()) ops::reorder_into(frozen_weights_, frozen_copies_);
}

int64_t Model::parameter_elements() const {
  int64_t elements = 0;
  for (const Parameter* parameter : parameters_) elements += parameter->shape().elements();
  return elements;
}

}  // namespace dptrain::nn
