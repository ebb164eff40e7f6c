#include "parallel/replicated_strategy.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "parallel/world_results.h"

namespace dptrain::parallel {
namespace {

/// Samples that a device trains on at once if memory is limited; 0 if it isn't.
int64_t most_at_once(const StrategyContext& context) {
  if (context.team.memory_limit_bytes == 0 || context.micro_batch_samples == 0) return 0;
  if (context.shards == 0) return context.micro_batch_samples;
  return std::max<int64_t>(1, context.micro_batch_samples * context.world_size() / context.shards);
}

}  // namespace

ReplicatedStrategy::ReplicatedStrategy(const StrategyContext& context, const std::function<bool(int)>& optimizer_on)
    : ReplicatedStrategy(context, [&](int world_rank) {
        const int rank = world_rank - context.own_ranks().begin;
        return ReplicaAssignment{.duties = {.updates = optimizer_on(rank), .averages = world_rank == 0}};
      }) {}

ReplicatedStrategy::ReplicatedStrategy(const StrategyContext& context,
                                       const std::function<ReplicaAssignment(int)>& assignment_of,
                                       const std::function<void(RankTeam&)>& form_groups)
    : team_(context.team),
      split_(context.split ? *context.split : BatchSplit::even(team_.world_size())),
      shards_(context.shards > 0 ? shard_runs(context.shards, team_.world_size()) : std::vector<ShardRun>()),
      most_at_once_(most_at_once(context)),
      same_stages_communicators_(static_cast<size_t>(team_.size())),
      replicas_(static_cast<size_t>(team_.size())),
      statistics_(replicas_.size()),
      samples_(replicas_.size()),
      reported_(replicas_.size()),
      // The process that has rank 0 gets the results of all ranks.
      results_(static_cast<size_t>(team_.is_first(0) ? team_.world_size() : team_.size())),
      finite_(replicas_.size()),
      reported_skipped_(replicas_.size()),
      averages_weights_(context.replica.average_decay.has_value()),
      planted_(context.planted) {
  ReplicaSpec spec = context.replica;
  for (const DeviceId& id : context.team.devices) spec.mixed_devices |= id.kind != context.team.devices[0].kind;
  const bool local = planted_ == PlantedFault::local_statistics;
  const BatchNormMode batch_norm = local ? BatchNormMode::local : context.batch_norm;
  spec.first_statistics = batch_norm == BatchNormMode::first;
  std::vector<ReplicaAssignment> assignments;
  for (int rank = 0; rank < world_size(); ++rank) assignments.push_back(assignment_of(rank));
  form_same_stages_groups(assignments);
  if (form_groups) form_groups(team_);
  team_.run("start", [&](int rank) {
    const ReplicaAssignment& assigned = assignments[static_cast<size_t>(first_rank() + rank)];
    ReplicaSpec of_rank = spec;
    of_rank.stages = assigned.stages;
    if (!shards_.empty()) of_rank.shards = shards_[static_cast<size_t>(first_rank() + rank)];
    replicas_[static_cast<size_t>(rank)] = std::make_unique<Replica>(team_.device(rank), of_rank, assigned.duties);
    if (assigned.place) assigned.place(replica(rank), rank);
    replica(rank).suffer(context.faults, first_rank() + rank);
    statistics_[static_cast<size_t>(rank)] =
        std::make_unique<SharedStatistics>(batch_norm, same_stages_communicator(rank), replica(rank));
  });
}

void ReplicatedStrategy::form_same_stages_groups(const std::vector<ReplicaAssignment>& assignments) {
  const RankRun here{first_rank(), first_rank() + ranks()};
  const auto stages_of = [&](int rank) { return assignments[static_cast<size_t>(rank)].stages; };
  std::vector<bool> grouped(assignments.size());
  for (int rank = 0; rank < world_size(); ++rank) {
    if (grouped[static_cast<size_t>(rank)]) continue;
    std::vector<int> alike;
    for (int other = rank; other < world_size(); ++other)
      if (stages_of(other) == stages_of(rank)) alike.push_back(other);
    std::vector<Communicator*> members;
    if (static_cast<int>(alike.size()) < world_size()) members = team_.form_world_group(alike);
    for (size_t i = 0; i < alike.size(); ++i) {
      grouped[static_cast<size_t>(alike[i])] = true;
      if (!here.contains(alike[i])) continue;
      const int own = alike[i] - here.begin;
      same_stages_communicators_[static_cast<size_t>(own)] = members.empty() ? &team_.communicator(own) : members[i];
    }
  }
}

void ReplicatedStrategy::set_split(const BatchSplit& split) {
  DPTRAIN_CHECK(split.parts() == world_size(), "a split of {} parts for {} ranks", split.parts(), world_size());
  split_ = split;
}

std::vector<double> ReplicatedStrategy::measure_speeds(const Dataset& dataset, int64_t samples) {
  std::vector<double> speeds(replicas_.size());
  samples = std::min(samples, dataset.samples());
  team_.run("measuring the devices' speed",
            [&](int rank) { speeds[static_cast<size_t>(rank)] = replica(rank).measure_speed(dataset, samples); });
  if (!team_.spans_processes()) return speeds;
  std::vector<double> of_world;
  team_.run("exchanging the devices' speed", [&](int rank) {
    const auto all = gather_values(team_.host_communicator(rank), speeds[static_cast<size_t>(rank)]);
    if (rank == 0) of_world = all;
  });
  return of_world;
}

int ReplicatedStrategy::first_part() {
  return shards_.empty() ? Strategy::first_part() : shards_[static_cast<size_t>(first_rank())].begin;
}

StepParts ReplicatedStrategy::parts_of(const Batch& batch, int rank) {
  ShardRun run{rank, rank + 1};
  if (!shards_.empty()) {
    const ShardRun& of_world = shards_[static_cast<size_t>(first_rank() + rank)];
    run = {of_world.begin - first_part(), of_world.end - first_part()};
  }
  StepParts parts;
  for (int part = run.begin; part < run.end; ++part)
    for (const MicroBatch& micro : batch.micro_batches) parts.push_back(&micro.parts[static_cast<size_t>(part)]);
  return parts;
}

StepTotals ReplicatedStrategy::totals_of(const Batch& batch) const {
  StepTotals totals = StepTotals::of(batch);
  if (planted_ == PlantedFault::divided_twice)
    for (int64_t& count : totals.counts) count *= world_size();
  return totals;
}

void ReplicatedStrategy::count_samples(const Batch& batch) {
  for (int rank = 0; rank < ranks(); ++rank)
    for (const BatchPart* part : parts_of(batch, rank)) count_samples(rank, part->samples());
}

std::vector<Device*> ReplicatedStrategy::part_devices() {
  std::vector<Device*> devices;
  for (int rank = 0; rank < ranks(); ++rank)
    std::ranges::copy(replica(rank).part_devices(), std::back_inserter(devices));
  return devices;
}

int64_t ReplicatedStrategy::RankStep::samples() const {
  int64_t samples = 0;
  for (const BatchPart* part : parts) samples += part->samples();
  return samples;
}

void ReplicatedStrategy::make_step(StepsUnderWay& steps, std::shared_ptr<const Batch> batch, const StepNumbers& numbers,
                                   std::function<void(const RankStep&)> give) {
  count_samples(*batch);
  steps.give(numbers, [this, batch = std::move(batch), numbers, give = std::move(give)](int rank) {
    const RankStep step{.rank = rank,
                        .replica = replica(rank),
                        .batch = *batch,
                        .parts = parts_of(*batch, rank),
                        .number = numbers.step};
    const InPhase computing(step.replica.clock(), Phase::compute);
    step.replica.begin_step(step.parts, numbers, totals_on(step));
    statistics(rank).begin_step(batch->samples);
    give(step);
    statistics(rank).end_step(step.parts, batch->samples);
    end_step(rank);
  });
}

RankCosts ReplicatedStrategy::take_costs(int rank) {
  const auto at = static_cast<size_t>(rank);
  CachingAllocator& allocator = team_.device(rank).allocator();
  const CommCounts counts = team_.counts(rank);
  // A GPU keeps working after its rank thread has gone on, so its own clock is used.
  const PhaseTimes of_thread = replica(rank).clock().take(), of_device = replica(rank).exchange().take_device_times();
  const bool on_gpu = team_.device(rank).can_record();
  RankCosts costs{.times = on_gpu ? of_device : of_thread,
                  .samples = std::exchange(samples_[at], 0),
                  .graph_steps = replica(rank).take_graph_steps(),
                  .skipped_steps = skipped_steps_ - std::exchange(reported_skipped_[at], skipped_steps_),
                  .peak_bytes = allocator.peak_bytes(),
                  .memory_at_peak = allocator.at_peak(),
                  .communication = counts - reported_[at]};
  reported_[at] = counts;
  allocator.reset_peak();
  return costs;
}

void ReplicatedStrategy::broadcast_from_first(int rank, const Tensor& tensor) {
  if (tensor.elements() > 0) team_.communicator(rank).broadcast(comm_buffer(tensor), 0);
}

}  // namespace dptrain::parallel
