#include "parallel/owned_updates.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "ops/clip.h"
#include "ops/square_sum.h"
#include "parallel/comm_buffer.h"

namespace dptrain::parallel {
namespace {

Tensor window_of(const Tensor& flat, const OwnedRange& range) {
  return flat.window(range.begin, {range.elements()}, Layout::plain);
}

/// Whether a parameter lies in more than one range.
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
      ranges_(options.ranges),
      clip_norm_(options.clip_norm),
      observer_(options.observer),
      norms_(options.optimizer, model.device(), std::ssize(model.parameters())),
      cuts_parameters_(cut_parameters(model, ranges_)) {
  const auto flat = optim::FlatWeights::of(model);
  // A rank that owns nothing knows what is kept, too.
  for (const auto& kept : options.optimizer.make(flat.range(0, 0))->state()) state_names_.push_back(kept.name);
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const OwnedRange& range = ranges_[i];
    if (range.owner == communicator.rank() && range.elements() > 0)
      own_.push_back({.range = i, .optimizer = options.optimizer.make(flat.range(range.begin, range.end))});
  }
  if (clip_norm_) squares_ = ops::no_squares(model.device());
}

void OwnedUpdates::update(optim::OptimizerStep step, optim::LossScale* loss_scale) {
  const InPhase updating(clock_, Phase::optimizer);
  if (clips()) squares_.fill_zero();
  for (const Own& own : own_) {
    const Tensor gradients = window_of(model_.gradients(), ranges_[own.range]);
    if (observer_ != nullptr) observer_->on_gradients(model_, gradients, ranges_[own.range].begin);
    if (loss_scale != nullptr) loss_scale->look_at(gradients);
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
  if (range.elements() > 0) communicator_.broadcast(comm_buffer(window_of(model_.weights(), range)), range.owner);
}

void OwnedUpdates::share_all() {
  for (const OwnedRange& range : ranges_) share(range);
}

std::vector<nn::NamedValues> OwnedUpdates::gather_state() {
  std::vector<nn::NamedValues> state;
  for (size_t k = 0; k < state_names_.size(); ++k) {
    const bool gathers = communicator_.rank() == 0;
    Tensor whole;
    if (gathers)
      whole = Tensor::zeros(model_.device(), model_.weights().shape(), {.purpose = MemoryPurpose::workspace});
    auto own = own_.begin();
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const OwnedRange& range = ranges_[i];
      if (range.elements() == 0) continue;
      Tensor values;
      if (own != own_.end() && own->range == i) values = (own++)->optimizer->state()[k].values;
      if (gathers && values.defined())
        window_of(whole, range).copy_from(values);
      else if (gathers)
        communicator_.receive(comm_buffer(window_of(whole, range)), range.owner);
      else if (values.defined())
        communicator_.send(comm_buffer(values), 0);
    }
    if (!gathers) continue;
    auto by_parameter = nn::values_by_parameter(model_, whole, state_names_[k] + ".");
    std::ranges::move(by_parameter, std::back_inserter(state));
  }
  return state;
}

void OwnedUpdates::load_state(const std::vector<nn::NamedValues>& state) {
  if (own_.empty()) return;
  for (size_t k = 0; k < state_names_.size(); ++k) {
    const Tensor whole =
        Tensor::zeros(model_.device(), model_.weights().shape(), {.purpose = MemoryPurpose::workspace});
    nn::load_by_parameter(model_, whole, state, state_names_[k] + ".");
    for (const Own& own : own_) own.optimizer->state()[k].values.copy_from(window_of(whole, ranges_[own.range]));
  }
}

std::vector<int64_t> OwnedUpdates::held_bytes() const {
  std::vector<int64_t> bytes(static_cast<size_t>(communicator_.size()));
  const auto tensors = static_cast<int64_t>(1 + state_names_.size());
  for (const OwnedRange& range : ranges_)
    bytes[static_cast<size_t>(range.owner)] += tensors * range.elements() * dtype_bytes(DType::f32);
  return bytes;
}

}  // namespace dptrain::parallel
