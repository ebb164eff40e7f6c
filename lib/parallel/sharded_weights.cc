#include "parallel/sharded_weights.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ops/reorder.h"
#include "parallel/comm_buffer.h"

namespace dptrain::parallel {

ShardedWeights::ShardedWeights(nn::Model& model, Device& device, Communicator& communicator, PhaseClock& clock,
                               const Options& options)
    : model_(model), device_(device), communicator_(communicator), clock_(clock) {
  WeightUnitOptions of_units = options.units;
  of_units.ranks = communicator.size();
  const auto cut = [&](const nn::Model& placed) {
    units_ = plan_weight_units(placed, of_units);
    own_ = Tensor::zeros(device, {own_elements(units_)}, {.purpose = MemoryPurpose::weights});
    unit_of_parameter_.resize(placed.parameters().size());
    std::vector<nn::ParameterRun> runs;
    for (size_t u = 0; u < units_.size(); ++u) {
      runs.push_back(units_[u].run);
      for (int p = runs[u].first_parameter; p < runs[u].end_parameter; ++p)
        unit_of_parameter_[static_cast<size_t>(p)] = static_cast<int>(u);
    }
    return runs;
  };
  const auto begun = [&, next = size_t{0}](const nn::ParameterRun& run, const Tensor& weights) mutable {
    const WeightUnit& unit = units_[next++];
    const OwnedRange range = unit.owned_by(communicator.rank());
    own_.window(unit.own_begin, {range.elements()}, Layout::plain)
        .copy_from(weights.window(range.begin - run.begin, {range.elements()}, Layout::plain));
  };
  model.place_by_runs(device, options.initialization, options.compute, {.cut = cut, .begun = begun});
  gathered_.resize(units_.size());
  if (options.compute != DType::f32) {
    own_copies_ = Tensor::empty(device, own_.shape(), {.dtype = options.compute, .purpose = MemoryPurpose::weights});
    refresh_copies();
    values_.emplace(model, communicator, units_);
    share_values();
  }
  for (size_t u = 0; u < units_.size(); ++u) release(static_cast<int>(u));
}

Tensor ShardedWeights::own_of(const Parameter& parameter) const {
  const WeightUnit& unit = units_[static_cast<size_t>(unit_of(parameter))];
  const OwnedRange range = unit.owned_by(communicator_.rank());
  const int64_t first = model_.offset(parameter);
  const int64_t begin = std::max(range.begin, first);
  const int64_t end = std::min(range.end, first + storage_elements(parameter.shape(), parameter.layout()));
  if (begin >= end) return {};
  return own_.window(unit.own_begin + begin - range.begin, {end - begin}, Layout::plain);
}

optim::FlatWeights ShardedWeights::own_flat(const Tensor& gradients) const {
  optim::FlatWeights flat{.weights = own_,
                          .gradients = gradients,
                          .copies = own_copies_,
                          .runs = {},
                          .parameters = std::ssize(model_.parameters())};
  const std::vector<optim::WeightRun> all = optim::weight_runs_of(model_);
  for (const WeightUnit& unit : units_) {
    const OwnedRange range = unit.owned_by(communicator_.rank());
    int64_t left = unit.part;
    for (int p = unit.run.first_parameter; p < unit.run.end_parameter; ++p) {
      const Parameter& parameter = *model_.parameters()[static_cast<size_t>(p)];
      const int64_t begin = std::max(range.begin, model_.offset(parameter));
      const int64_t end = std::min(range.end, model_.end_offset(parameter));
      if (begin >= end) continue;
      flat.runs.push_back(all[static_cast<size_t>(p)]);
      flat.runs.back().elements = end - begin;
      left -= end - begin;
    }
    if (left == 0) continue;
    // The padding of a part is 0 and stays 0.
    flat.runs.push_back(all[static_cast<size_t>(unit.run.end_parameter) - 1]);
    flat.runs.back().elements = left;
  }
  return flat;
}

void ShardedWeights::gather(int unit) {
  Gathered& of = gathered(unit);
  if (of.weights.defined()) return;
  const WeightUnit& all = units_[static_cast<size_t>(unit)];
  const Tensor& own = own_copies_.defined() ? own_copies_ : own_;
  const Tensor part = own.window(all.own_begin, {all.part}, Layout::plain);
  if (communicator_.size() == 1) {
    of.weights = part;
    return;
  }
  of.weights = Tensor::empty(device_, {all.part * communicator_.size()},
                             {.dtype = part.dtype(), .purpose = MemoryPurpose::weights});
  const InPhase communicating(clock_, Phase::communication);
  of.work = communicator_.start_all_gather(comm_buffer(part), comm_buffer(of.weights));
}

void ShardedWeights::await(int unit) {
  Gathered& of = gathered(unit);
  DPTRAIN_CHECK(of.weights.defined(), "weights of unit {} are read while nobody has gathered them", unit);
  if (of.work) {
    const InPhase communicating(clock_, Phase::communication);
    std::exchange(of.work, nullptr)->wait();
  }
  if (std::exchange(of.is_bound, true)) return;
  const bool are_values = of.weights.dtype() == DType::f32;
  model_.bind_weights(units_[static_cast<size_t>(unit)].run, are_values ? of.weights : Tensor(),
                      are_values ? Tensor() : of.weights);
}

void ShardedWeights::release(int unit) {
  Gathered& of = gathered(unit);
  if (of.work) await(unit);
  model_.release_weights(units_[static_cast<size_t>(unit)].run, [this, unit] { await(unit); });
  if (values_) values_->bind(unit);
  of = {};
}

void ShardedWeights::refresh_copies() {
  if (own_copies_.defined()) ops::reorder_into(own_, own_copies_);
}

void ShardedWeights::share_values() {
  if (!values_) return;
  const InPhase communicating(clock_, Phase::communication);
  values_->share(own_);
}

void ShardedWeights::hold_all() {
  holds_all_ = true;
  for (size_t u = 0; u < units_.size(); ++u) gather(static_cast<int>(u));
  for (size_t u = 0; u < units_.size(); ++u) await(static_cast<int>(u));
}

void ShardedWeights::release_all() {
  for (size_t u = 0; u < units_.size(); ++u) release(static_cast<int>(u));
  holds_all_ = false;
}

}  // namespace dptrain::parallel
