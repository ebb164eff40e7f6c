#include "parallel/fsdp.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/bit_digest.h"
#include "base/check.h"
#include "base/error.h"
#include "parallel/world_results.h"

namespace dptrain::parallel {
namespace {

/// A digest of all tensors that ranks take parts of.
int64_t digest_of(const TrainingState& state) {
  uint64_t digest = 0;
  for (const auto* tensors : {&state.model, &state.optimizer, &state.average})
    for (const nn::NamedValues& tensor : *tensors)
      for (const auto bytes : {std::as_bytes(std::span(tensor.name)), std::as_bytes(std::span(tensor.values))})
        digest = 31 * digest + bit_digest(bytes);
  return static_cast<int64_t>(digest);
}

/// Returns a rank's duties, and the function that places its model.
ReplicaAssignment assignment_of_rank(const StrategyContext& context, const Fsdp::Options& options,
                                     const ShardGroups& groups) {
  const auto is_gpu = [](const DeviceId& id) { return id.kind == DeviceKind::cuda; };
  const ShardedReplica::Options of_rank{.unit_mb = options.unit_mb,
                                        .reshard_after_forward = options.reshard_after_forward,
                                        .leaves_last_sum_out = context.planted == PlantedFault::bucket_left_out,
                                        // Every process lists the same kinds of devices.
                                        .has_gpus = std::ranges::any_of(context.team.devices, is_gpu)};
  const auto place = [of_rank, &groups, &spec = context.replica](Replica& replica, int rank) {
    replica.deal_out_by(std::make_unique<ShardedReplica>(replica, groups.of(rank), spec, of_rank));
  };
  return {.duties = {.places = false, .updates = false, .measures_squares = options.measures_noise}, .place = place};
}

}  // namespace

Fsdp::Fsdp(const StrategyContext& context, const Options& options)
    : Fsdp(context, options, std::make_shared<ShardGroups>(options.replicas)) {}

Fsdp::Fsdp(const StrategyContext& context, const Options& options, std::shared_ptr<ShardGroups> groups)
    : ReplicatedStrategy(
          context, [&](int) { return assignment_of_rank(context, options, *groups); },
          [&](RankTeam& team) { groups->form(team); }),
      groups_(std::move(groups)),
      recorded_(team(), context.replica.input.text.has_value()),
      records_(static_cast<size_t>(ranks())),
      steps_(team(), context.replica.steps_in_flight) {
  DPTRAIN_CHECK(context.shards == 0, "logical shards of a batch compute with weights that are whole");
  agree_on_recording();
  for (int rank = 0; rank < ranks(); ++rank) {
    recorded_.exchange_over(rank, groups_->of(rank).used());
    if (records_exchanges(rank)) recorded_.join(rank, replica(rank));
  }
}

std::vector<double> Fsdp::measure_speeds(const Dataset& dataset, int64_t samples) {
  return with_prefix("split: auto measures with all weights on each device, unlike split: even", [&] {
    team().run("gathering the weights", [&](int rank) { sharded(rank).weights().hold_all(); });
    auto speeds = ReplicatedStrategy::measure_speeds(dataset, samples);
    team().run("forgetting the weights", [&](int rank) { sharded(rank).weights().release_all(); });
    return speeds;
  });
}

void Fsdp::train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  make_step(steps_, std::move(batch), numbers, [this](const RankStep& step) { give_step(step); });
}

void Fsdp::give_step(const RankStep& step) {
  const auto& [rank, own, batch, parts, number] = step;
  if (records_exchanges(rank))
    return recorded_.run(rank, own, parts, batch, [&] {
      sharded(rank).pass().begin_step(false);  // recorded_.run keeps exchanges of new sizes apart itself
      compute_and_update(rank, parts);
    });
  sharded(rank).begin_step(sizes_known_to_all(team(), batch, own.device()));
  compute_and_update(rank, parts);
}

void Fsdp::agree_on_recording() {
  team().run("start", [&](int rank) {
    const bool can = can_record_exchanges(rank);
    // With one copy all ranks have one communicator, which says the same to each. Logging ranks exchange nothing.
    const bool asks = groups_->of(rank).copies != nullptr && !team().is_logged();
    records_[static_cast<size_t>(rank)] = asks ? !any_rank(team().host_communicator(rank), !can) : can;
  });
}

bool Fsdp::can_record_exchanges(int rank) {
  return replica(rank).can_record_with_others() &&
         std::ranges::all_of(groups_->of(rank).used(),
                             [](const Communicator* used) { return used->can_be_recorded(DType::f32); });
}

void Fsdp::compute_and_update(int rank, const StepParts& parts) {
  replica(rank).forward_backward(parts, {});
  replica(rank).update_and_publish([&] { sharded(rank).update(); });
}

WeightDigests Fsdp::digests_on(int rank) {
  const auto own_of = [&](const Parameter& parameter) { return sharded(rank).weights().own_of(parameter); };
  return digests_of_part(replica(rank).model(), groups_->of(rank).shards.rank(), own_of);
}

TrainingState Fsdp::training_state() {
  TrainingState state = ReplicatedStrategy::training_state();
  team().run("reading the training state", [&](int rank) {
    do_uncounted(rank, [&] {
      auto average = sharded(rank).gather_average();
      if (team().is_first(rank)) state.average = std::move(average);
    });
  });
  return state;
}

void Fsdp::restore(const TrainingState& state) {
  if (team().spans_processes()) require_same(state);
  ReplicatedStrategy::restore(state);
}

void Fsdp::require_same(const TrainingState& state) {
  const int64_t own = digest_of(state);
  std::vector<int64_t> all(static_cast<size_t>(world_size()));
  team().run("comparing the initial state", [&](int rank) {
    std::vector<int64_t> mine = {own}, of_world(all.size());
    team().host_communicator(rank).all_gather(buffer_of(mine), buffer_of(of_world));
    if (rank == 0) all = std::move(of_world);
  });
  const auto other = std::ranges::find_if(all, [&](int64_t digest) { return digest != all[0]; });
  if (other == all.end()) return;
  throw Error(ExitCode::ranks_disagree,
              fmt::format("initial state: expected the same weights and optimizer state on all processes, got "
                          "different ones on rank {} and rank 0; start all processes alike",
                          other - all.begin()));
}

void Fsdp::swap_average(int rank) {
  do_uncounted(rank, [&] { sharded(rank).swap_average(); });
}

}  // namespace dptrain::parallel
