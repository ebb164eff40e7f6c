#include "parallel/owned_updates.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/check.h"
#include "ops/clip.h"
#include "ops/square_sum.h"
#include "parallel/comm_buffer.h"

namespace dptrain::parallel {
namespace {

/// Whether some parameter is cut over several ranges.
bool cut_parameters(const nn::Model& model, const std::vector<OwnedRange>& ranges) {
  std::set<int64_t> begins;
  for (const Parameter* parameter : model.parameters()) begins.insert(model.offset(*parameter));
  return std::ranges::any_of(
      ranges, [&](const OwnedRange& range) { return range.elements() > 0 && !begins.contains(range.begin); });
}

}  // namespace

OwnedUpdates::OwnedUpdates(nn::Model& model, Communicator& communicator, PhaseClock& clock, const Options& options)
    : model_(model),
      communicator_(communicator),
      clock_(clock),
      values_(model, communicator, options.ranges),
      clip_norm_(options.clip_norm),
      observer_(options.observer),
      measure_(options.measure),
      norms_(options.optimizer, model.device(), std::ssize(model.parameters())),
      cuts_parameters_(cut_parameters(model, options.ranges)) {
  const auto flat = options.own ? options.own->flat : optim::FlatWeights::of(model);
  // An optimizer over an empty range gives the state's names even on a rank that owns nothing.
  for (const auto& kept : options.optimizer.make(flat.range(0, 0))->state()) state_names_.push_back(kept.name);
  std::vector<Slice> slices;
  for (size_t i = 0; i < ranges().size(); ++i) {
    const OwnedRange& range = ranges()[i];
    if (range.owner != communicator.rank() || range.elements() == 0) continue;
    if (options.own) {
      slices.push_back({.range = i, .begin = options.own->begins[slices.size()]});
      continue;
    }
    const auto part = flat.range(range.begin, range.end);
    own_.push_back({.flat = part, .optimizer = options.optimizer.make(part), .slices = {{.range = i, .begin = 0}}});
  }
  if (options.own)
    own_.push_back({.flat = flat, .optimizer = options.optimizer.make(flat), .slices = std::move(slices)});
  if (clip_norm_) squares_ = ops::no_squares(model.device());
}

Tensor OwnedUpdates::window_of(const Tensor& flat, const Slice& slice) const {
  return flat.window(slice.begin, {ranges()[slice.range].elements()}, Layout::plain);
}

void OwnedUpdates::update(optim::OptimizerStep step, optim::LossScale* loss_scale) {
  const InPhase updating(clock_, Phase::optimizer);
  if (clips()) squares_.fill_zero();
  for (const Own& own : own_)
    for (const Slice& slice : own.slices) {
      const Tensor gradients = window_of(own.flat.gradients, slice);
      if (observer_ != nullptr) observer_->on_gradients(model_, gradients, ranges()[slice.range].begin);
      if (loss_scale != nullptr) loss_scale->look_at(gradients);
      if (measure_) measure_(gradients);
      if (clips()) ops::add_squares(gradients, squares_);
    }
  agree(loss_scale);
  if (clips()) step.control.gradient_factor = ops::clip_factor(squares_, *clip_norm_, step.control.gradient_factor);
  norms_.measure(step, [&](const Tensor& squares) {
    for (const Own& own : own_) own.optimizer->measure(step, squares);
    if (!cuts_parameters_) return;
    const InPhase communicating(clock_, Phase::communication);
    communicator_.all_reduce(comm_buffer(squares));
  });
  for (const Own& own : own_) own.optimizer->step(step);
}

void OwnedUpdates::agree(optim::LossScale* loss_scale) {
  const InPhase communicating(clock_, Phase::communication);
  if (loss_scale != nullptr) communicator_.all_reduce(comm_buffer(loss_scale->found()));
  if (clips()) communicator_.all_reduce(comm_buffer(squares_));
}

void OwnedUpdates::share(const OwnedRange& range) {
  const InPhase communicating(clock_, Phase::communication);
  if (range.elements() == 0) return;
  communicator_.broadcast(comm_buffer(model_.weights().window(range.begin, {range.elements()}, Layout::plain)),
                          range.owner);
}

void OwnedUpdates::share_all() {
  for (const OwnedRange& range : ranges()) share(range);
}

DealtOutValues::OwnValues OwnedUpdates::own_values(const std::function<Tensor(const Own&)>& flat_of) const {
  return [this, flat_of](size_t range) {
    for (const Own& own : own_)
      for (const Slice& slice : own.slices)
        if (slice.range == range) return window_of(flat_of(own), slice);
    DPTRAIN_CHECK(false, "range {} is another rank's", range);
    return Tensor();
  };
}

std::vector<nn::NamedValues> OwnedUpdates::gather_state() {
  std::vector<nn::NamedValues> state;
  for (size_t k = 0; k < state_names_.size(); ++k) {
    const auto own = own_values([k](const Own& one) { return one.optimizer->state()[k].values; });
    const auto read = [&](const Parameter& parameter) { return values_.gather(parameter, own); };
    auto by_parameter = nn::values_by_parameter(model_, read, state_names_[k] + ".");
    std::ranges::move(by_parameter, std::back_inserter(state));
  }
  return state;
}

void OwnedUpdates::load_state(const std::vector<nn::NamedValues>& state) {
  for (size_t k = 0; k < state_names_.size(); ++k) {
    const auto own = own_values([k](const Own& one) { return one.optimizer->state()[k].values; });
    const auto write = [&](const Parameter& parameter, const std::function<Tensor()>& values) {
      values_.take(parameter, values, own);
    };
    nn::load_by_parameter(model_, write, state, state_names_[k] + ".");
  }
}

nn::ReadParameter OwnedUpdates::read_from(const Tensor& own) const {
  return [this, values = own_values([own](const Own&) { return own; })](const Parameter& parameter) {
    return values_.gather(parameter, values);
  };
}

nn::WriteParameter OwnedUpdates::write_to(const Tensor& own) const {
  return [this, values = own_values([own](const Own&) { return own; })](
             const Parameter& parameter, const std::function<Tensor()>& all) { values_.take(parameter, all, values); };
}

std::vector<int64_t> OwnedUpdates::held_bytes() const {
  std::vector<int64_t> bytes(static_cast<size_t>(communicator_.size()));
  const auto tensors = static_cast<int64_t>(1 + state_names_.size());
  for (const OwnedRange& range : ranges())
    bytes[static_cast<size_t>(range.owner)] += tensors * range.elements() * dtype_bytes(DType::f32);
  return bytes;
}

}  // namespace dptrain::parallel
