#include "parallel/sharded_replica.h"

#include "parallel/idle_devices.h"

namespace dptrain::parallel {
namespace {

std::vector<OwnedRange> ranges_of(const std::vector<WeightUnit>& units, int ranks) {
  std::vector<OwnedRange> ranges;
  for (const WeightUnit& unit : units)
    for (int rank = 0; rank < ranks; ++rank) ranges.push_back(unit.owned_by(rank));
  return ranges;
}

OwnedUpdates::OwnBuffers own_buffers(const ShardedWeights& weights, const Tensor& gradients, int rank) {
  OwnedUpdates::OwnBuffers own{.flat = weights.own_flat(gradients), .begins = {}};
  for (const WeightUnit& unit : weights.units())
    if (unit.owned_by(rank).elements() > 0) own.begins.push_back(unit.own_begin);
  return own;
}

bool is_first_copy(const ShardCommunicators& communicators) {
  return communicators.copies == nullptr || communicators.copies->rank() == 0;
}

/// ShardedPass::Options::apart, which all ranks call where one of them has to.
std::function<void()> apart_on(Device& device, Communicator& communicator) {
  return [&device, &communicator] { wait_until_all_idle(device, communicator); };
}

}  // namespace

ShardedReplica::ShardedReplica(Replica& replica, const ShardCommunicators& communicators, const ReplicaSpec& spec,
                               const Options& options)
    : replica_(replica),
      weights_(
          replica.model(), replica.device(), communicators.shards, replica.clock(),
          {.units = {.unit_mb = options.unit_mb}, .compute = replica.dtype(), .initialization = spec.initialization}),
      gradients_(replica.model(), communicators, replica.clock(), weights_.units(),
                 options.leaves_last_sum_out ? 0 : -1, replica.measure_of(StepExchange::Squares::own)),
      pass_(weights_, gradients_,
            {.reshard_after_forward = options.reshard_after_forward,
             .apart = options.has_gpus ? apart_on(replica.device(), communicators.world) : std::function<void()>()}),
      updates_(
          replica.model(), communicators.shards, replica.clock(),
          {.ranges = ranges_of(weights_.units(), communicators.shards.size()),
           .own = own_buffers(weights_, gradients_.own(), communicators.shards.rank()),
           .optimizer = spec.optimizer,
           .clip_norm = spec.clip_norm,
           // Every copy has the same sums; one of them is enough.
           .observer = is_first_copy(communicators) ? spec.observer : nullptr,
           .measure = is_first_copy(communicators) ? replica.measure_of(StepExchange::Squares::summed) : nullptr}) {
  if (spec.average_decay) average_.emplace(weights_.own(), *spec.average_decay);
}

void ShardedReplica::update() {
  updates_.update(replica_.optimizer_step(), replica_.loss_scale());
  weights_.share_values();
  if (average_) {
    const InPhase updating(replica_.clock(), Phase::optimizer);
    average_->follow(weights_.own());
  }
  replica_.end_update();
}

void ShardedReplica::renew_copies() {
  weights_.refresh_copies();
  weights_.share_values();
}

void ShardedReplica::swap_average() {
  if (!average_) return;
  average_->swap_with(weights_.own());
  renew_copies();
}

std::vector<nn::NamedValues> ShardedReplica::gather_average() const {
  if (!average_) return {};
  return nn::values_by_parameter(replica_.model(), updates_.read_from(average_->values()));
}

void ShardedReplica::restore(const TrainingState& state) {
  if (!state.model.empty()) {
    nn::load_state_dict(replica_.model(), state.model, updates_.write_to(weights_.own()));
    renew_copies();
  }
  if (!state.optimizer.empty()) updates_.load_state(state.optimizer);
  if (average_ && !state.average.empty())
    nn::load_by_parameter(replica_.model(), updates_.write_to(average_->values()), state.average);
  else if (average_ && !state.model.empty())
    average_->restart(weights_.own());
}

}  // namespace dptrain::parallel
