#include "parallel/fsdp.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/bit_digest.h"
#include "base/check.h"
#include "base/error.h"

namespace dptrain::parallel {
namespace {

/// Faults that change a weight on one device make it differ from the others'.
void refuse_faults(const StrategyContext& context) {
  for (const InjectedFault& fault : context.faults)
    if (fault.kind == InjectedFault::Kind::flip || fault.kind == InjectedFault::Kind::nan)
      throw Error(ExitCode::usage,
                  Mistake{.where = "--fault",
                          .expected = "under fsdp no two devices have the same weights, expected kill, "
                                      "stop, hang, slow or memory",
                          .got = "flip or nan",
                          .advice = "rehearse it with strategy: ddp"});
}

int64_t digest_of(const std::vector<nn::NamedValues>& weights) {
  uint64_t digest = 0;
  for (const nn::NamedValues& tensor : weights)
    digest = 31 * digest + bit_digest(std::as_bytes(std::span(tensor.values)));
  return static_cast<int64_t>(digest);
}

}  // namespace

Fsdp::Fsdp(const StrategyContext& context, const Options& options)
    : Fsdp(context, options, std::make_shared<Sharded>(context.team.devices.size())) {}

Fsdp::Fsdp(const StrategyContext& context, const Options& options, std::shared_ptr<Sharded> replicas)
    : ReplicatedStrategy(
          context,
          [&](int) {
            refuse_faults(context);
            const auto place = [&](int rank, Replica& replica, Communicator& communicator) {
              (*replicas)[static_cast<size_t>(rank)] = std::make_unique<ShardedReplica>(
                  replica, communicator, context.replica,
                  ShardedReplica::Options{.unit_mb = options.unit_mb,
                                          .reshard_after_forward = options.reshard_after_forward,
                                          .leaves_last_sum_out = context.planted == PlantedFault::bucket_left_out});
            };
            return ReplicaPart{.duties = {.places = false, .updates = false}, .place = place};
          }),
      replicas_(std::move(replicas)),
      recorded_(team(), context.replica.input.text.has_value()),
      steps_(team(), context.replica.steps_in_flight) {
  DPTRAIN_CHECK(context.shards == 0, "logical shards of a batch compute with weights that are whole");
  for (int rank = 0; rank < ranks(); ++rank)
    if (team().communicator(rank).can_all_be_recorded()) recorded_.join(rank, replica(rank));
}

std::vector<double> Fsdp::measure_speeds(const Dataset& dataset, int64_t samples) {
  team().run("gathering the weights", [&](int rank) { sharded(rank).weights().hold_all(); });
  auto speeds = ReplicatedStrategy::measure_speeds(dataset, samples);
  team().run("forgetting the weights", [&](int rank) { sharded(rank).weights().release_all(); });
  return speeds;
}

void Fsdp::train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  count_samples(*batch);
  steps_.give(numbers, [this, batch = std::move(batch), numbers](int rank) { step_on(rank, *batch, numbers); });
}

void Fsdp::step_on(int rank, const Batch& batch, const StepNumbers& numbers) {
  const StepParts parts = parts_of(batch, rank);
  Replica& own = replica(rank);
  const InPhase computing(own.clock(), Phase::compute);
  own.begin_step(parts, numbers, totals_of(batch));
  statistics(rank).begin_step(batch.samples);
  if (own.records_steps() && team().communicator(rank).can_all_be_recorded()) {
    recorded_.run(rank, own, parts, batch, [&](StepRecorder::How how) {
      sharded(rank).pass().begin_step(how == StepRecorder::How::done);
      give_step(rank, parts);
    });
  } else {
    // Processes don't know what labels others have.
    sharded(rank).begin_step(team().spans_processes() ? StepRecorder::Signature{batch.samples}
                                                      : sizes_of_all(batch, own.device()));
    give_step(rank, parts);
  }
  statistics(rank).end_step(parts, batch.samples);
  end_step(rank);
}

void Fsdp::give_step(int rank, const StepParts& parts) {
  Replica& own = replica(rank);
  own.forward_backward(parts, {});
  own.exchange().stamp(StepExchange::Point::reduced);
  sharded(rank).update();
  own.exchange().stamp(StepExchange::Point::updated);
  own.exchange().publish();
}

TrainingState Fsdp::training_state() {
  TrainingState state = ReplicatedStrategy::training_state();
  team().run("reading the training's state", [&](int rank) {
    do_uncounted(rank, [&] {
      auto average = sharded(rank).gather_average();
      if (team().is_first(rank)) state.average = std::move(average);
    });
  });
  return state;
}

void Fsdp::restore(const TrainingState& state) {
  if (team().spans_processes()) require_same(state.model);
  ReplicatedStrategy::restore(state);
}

void Fsdp::require_same(const std::vector<nn::NamedValues>& weights) {
  const int64_t own = digest_of(weights);
  team().run("comparing what is begun with", [&](int rank) {
    std::vector<int64_t> mine = {own}, all(static_cast<size_t>(world_size()));
    team().host_communicator(rank).all_gather(buffer_of(mine), buffer_of(all));
    const auto other = std::ranges::find_if(all, [&](int64_t digest) { return digest != all[0]; });
    if (other == all.end()) return;
    throw Error(
        ExitCode::ranks_disagree,
        fmt::format("expected the same weights to begin with on all processes, got other ones on rank {} than on "
                    "rank 0; give all of them the same files",
                    other - all.begin()));
  });
}

void Fsdp::share_weights(int rank) { broadcast_from_first(rank, replica(rank).model().running_states()); }

void Fsdp::swap_average(int rank) {
  do_uncounted(rank, [&] { sharded(rank).swap_average(); });
}

}  // namespace dptrain::parallel
