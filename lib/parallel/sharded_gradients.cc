#include "parallel/sharded_gradients.h"

#include <utility>

#include "parallel/comm_buffer.h"

namespace dptrain::parallel {

ShardedGradients::ShardedGradients(nn::Model& model, const ShardCommunicators& communicators, PhaseClock& clock,
                                   const std::vector<WeightUnit>& units, int leave_out,
                                   std::function<void(const Tensor&)> measure)
    : model_(model),
      communicators_(communicators),
      clock_(clock),
      units_(units),
      leave_out_(leave_out),
      measure_(std::move(measure)),
      own_(Tensor::zeros(model.device(), {own_elements(units)}, {.purpose = MemoryPurpose::gradients})),
      works_(units.size()) {}

void ShardedGradients::start(int unit) {
  const WeightUnit& of = units_[static_cast<size_t>(unit)];
  for (int p = of.run.first_parameter; p < of.run.end_parameter; ++p) {
    Parameter& parameter = *model_.parameters()[static_cast<size_t>(p)];
    if (parameter.has_gradient()) continue;
    parameter.gradient_to_write().fill_zero();
    parameter.mark_gradient();
  }
  if (measure_) measure_(model_.gradients(of.run.begin, of.run.end));
  if (!is_summed(unit)) return;
  const InPhase communicating(clock_, Phase::communication);
  const Tensor all = model_.gradients(of.run.begin, of.run.end + of.run.padding);
  works_[static_cast<size_t>(unit)] =
      communicators_.shards.start_reduce_scatter(comm_buffer(all), comm_buffer(own_part(of)));
}

void ShardedGradients::await(int unit) {
  auto& work = works_[static_cast<size_t>(unit)];
  if (!work) return;
  const InPhase communicating(clock_, Phase::communication);
  std::exchange(work, nullptr)->wait();
}

void ShardedGradients::finish(int unit) {
  await(unit);
  const WeightUnit& of = units_[static_cast<size_t>(unit)];
  if (!is_summed(unit)) {
    const int64_t begin = of.run.begin + communicators_.shards.rank() * of.part;
    own_part(of).copy_from(model_.gradients(begin, begin + of.part));
  }
  model_.forget_gradients(of.run);
  if (!has_copies() || !is_summed(unit)) return;
  const InPhase communicating(clock_, Phase::communication);
  of_copies_.push_back(communicators_.copies->start_all_reduce(comm_buffer(own_part(of))));
}

void ShardedGradients::await_copies() {
  const InPhase communicating(clock_, Phase::communication);
  for (const auto& work : std::exchange(of_copies_, {})) work->wait();
}

Tensor ShardedGradients::own_part(const WeightUnit& unit) const {
  return own_.window(unit.own_begin, {unit.part}, Layout::plain);
}

}  // namespace dptrain::parallel
