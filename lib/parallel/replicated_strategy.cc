#include "parallel/replicated_strategy.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "parallel/world_results.h"

namespace dptrain::parallel {

namespace {

/// Samples that a device trains on at once where memory is limited; 0 where it isn't.
int64_t most_at_once(const StrategyContext& context) {
  if (context.team.memory_limit_bytes == 0 || context.micro_batch_samples == 0) return 0;
  if (context.shards == 0) return context.micro_batch_samples;
  return std::max<int64_t>(1, context.micro_batch_samples * context.world_size() / context.shards);
}

/// Steps whose scores travel to another process together.
constexpr int64_t kStepsOfScores = 32;

}  // namespace

ReplicatedStrategy::ReplicatedStrategy(const StrategyContext& context, const std::function<bool(int)>& optimizer_on)
    : ReplicatedStrategy(context, [&](int world_rank) {
        const int rank = world_rank - context.own_ranks().begin;
        return ReplicaPart{.duties = {.updates = optimizer_on(rank), .averages = world_rank == 0}};
      }) {}

ReplicatedStrategy::ReplicatedStrategy(const StrategyContext& context, const std::function<ReplicaPart(int)>& part_on)
    : team_(context.team),
      split_(context.split ? *context.split : BatchSplit::even(team_.world_size())),
      shards_(context.shards > 0 ? shard_runs(context.shards, team_.world_size()) : std::vector<ShardRun>()),
      most_at_once_(most_at_once(context)),
      part_communicators_(static_cast<size_t>(team_.size())),
      replicas_(static_cast<size_t>(team_.size())),
      statistics_(replicas_.size()),
      samples_(replicas_.size()),
      reported_(replicas_.size()),
      // The process that has rank 0 gets all of them.
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
  std::vector<ReplicaPart> parts;
  for (int rank = 0; rank < world_size(); ++rank) parts.push_back(part_on(rank));
  form_part_groups(parts);
  team_.run("start", [&](int rank) {
    const ReplicaPart& part = parts[static_cast<size_t>(first_rank() + rank)];
    ReplicaSpec of_rank = spec;
    of_rank.part = part.stages;
    if (!shards_.empty()) of_rank.shards = shards_[static_cast<size_t>(first_rank() + rank)];
    replicas_[static_cast<size_t>(rank)] = std::make_unique<Replica>(team_.device(rank), of_rank, part.duties);
    statistics_[static_cast<size_t>(rank)] =
        std::make_unique<SharedStatistics>(batch_norm, part_communicator(rank), replica(rank));
  });
}

void ReplicatedStrategy::form_part_groups(const std::vector<ReplicaPart>& parts) {
  const RankRun here{first_rank(), first_rank() + ranks()};
  const auto stages_of = [&](int rank) { return parts[static_cast<size_t>(rank)].stages; };
  std::vector<bool> grouped(parts.size());
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
      part_communicators_[static_cast<size_t>(own)] = members.empty() ? &team_.communicator(own) : members[i];
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

int64_t ReplicatedStrategy::evaluation_samples(const Dataset& dataset) const {
  const int64_t usual = evaluation_block(dataset, team_.kind(0));
  return most_at_once_ > 0 ? std::min(usual, most_at_once_) : usual;
}

Score ReplicatedStrategy::total(const std::vector<StepResults>& results) {
  Score score;
  for (const StepResults& part : results) {
    score.outputs.resize(std::max(score.outputs.size(), part.outputs.size()));
    for (size_t k = 0; k < part.outputs.size(); ++k) {
      for (const double loss : part.outputs[k].losses) score.outputs[k].loss_sum += loss;
      score.outputs[k].correct += part.outputs[k].correct;
      score.outputs[k].counted += part.outputs[k].counted;
    }
    score.samples += part.samples;
  }
  return score;
}

std::optional<Score> ReplicatedStrategy::evaluate(const Dataset& dataset, const std::function<bool()>& stopped) {
  const int64_t size = evaluation_samples(dataset);
  const int64_t blocks = (dataset.samples() + size - 1) / size;
  std::vector<StepResults> results(static_cast<size_t>(blocks));
  std::atomic<bool> incomplete = false;
  team_.run("evaluation", [&](int rank) {
    share_weights(rank);
    exchange_average(rank);
    for (int64_t block = first_rank() + rank; block < blocks && !incomplete; block += world_size()) {
      if (stopped()) {
        incomplete = true;
        break;
      }
      const int64_t begin = block * size, end = std::min(begin + size, dataset.samples());
      results[static_cast<size_t>(block)] = replica(rank).evaluate(load_block(dataset, begin, end, team_.device(rank)));
    }
    exchange_average(rank);
    if (team_.spans_processes() && any_rank(team_.host_communicator(rank), incomplete)) {
      incomplete = true;
    } else if (team_.spans_processes()) {
      gather_blocks(rank, results);
    }
  });
  if (incomplete) return std::nullopt;
  return total(results);
}

void ReplicatedStrategy::gather_blocks(int rank, std::vector<StepResults>& results) {
  const auto ranks = static_cast<size_t>(world_size());
  std::vector<StepResults> own;
  for (auto block = static_cast<size_t>(first_rank() + rank); block < results.size(); block += ranks)
    own.push_back(results[block]);
  const auto all = parallel::gather_results(team_.host_communicator(rank), own);
  for (size_t other = replicas_.size(); other < all.size(); ++other)
    for (size_t i = 0; i < all[other].size(); ++i) results[other + i * ranks] = all[other][i];
}

void ReplicatedStrategy::exchange_average(int rank) {
  if (!averages_weights_) return;
  if (team_.is_first(rank)) replica(0).average()->swap_with(replica(0).model());
  broadcast_from_first(rank, replica(rank).model().weights());
  replica(rank).model().refresh_copies();
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

void ReplicatedStrategy::end_step(int rank) {
  StepExchange& exchange = replica(rank).exchange();
  exchange.end();
  keep_results(rank, false);
}

void ReplicatedStrategy::keep_results(int rank, bool all) {
  std::vector<StepResults> finished = replica(rank).take_results(all);
  const std::lock_guard lock(results_mutex_);
  std::ranges::move(finished, std::back_inserter(results_[static_cast<size_t>(rank)]));
}

void ReplicatedStrategy::gather_results(int rank) {
  const auto at = static_cast<size_t>(rank);
  std::unique_lock lock(results_mutex_);
  const std::vector<StepResults> own(results_[at].begin(), results_[at].end());
  lock.unlock();
  const auto all = parallel::gather_results(team_.host_communicator(rank), own);
  lock.lock();
  for (size_t other = replicas_.size(); other < all.size(); ++other)
    std::ranges::copy(all[other], std::back_inserter(results_[other]));
}

std::vector<Score> ReplicatedStrategy::take_scores(bool all) {
  // Between processes results travel together, and so seldom that it costs nothing.
  const bool travels = team_.spans_processes();
  if (travels && !is_in_step() && !all) return {};
  if (travels && !all && ++score_calls_ % kStepsOfScores != 0) return {};
  if (all) meet();
  if (all || travels) {
    team_.run("finishing the steps under way", [&](int rank) {
      keep_results(rank, true);
      if (rank == 0) skipped_steps_ = replica(0).skipped_steps();
      if (travels) gather_results(rank);
      if (all) settle(rank);
    });
  }
  std::vector<Score> scores;
  const std::lock_guard lock(results_mutex_);
  while (std::ranges::none_of(results_, [](const auto& results) { return results.empty(); })) {
    std::vector<StepResults> of_ranks;
    for (auto& results : results_) {
      of_ranks.push_back(std::move(results.front()));
      results.pop_front();
    }
    for (size_t& finite : finite_) finite = finite > 0 ? finite - 1 : 0;
    scores.push_back(total(of_ranks));
  }
  return scores;
}

std::optional<size_t> ReplicatedStrategy::diverged_step() {
  if (is_in_step() || !team_.spans_processes()) return std::nullopt;
  const auto is_finite = [](const StepResults& step) {
    return std::ranges::all_of(step.outputs, [](const auto& output) {
      return std::ranges::all_of(output.losses, [](double loss) { return std::isfinite(loss); });
    });
  };
  std::optional<size_t> first;
  const std::lock_guard lock(results_mutex_);
  for (size_t rank = 0; rank < finite_.size(); ++rank) {
    size_t& finite = finite_[rank];
    while (finite < results_[rank].size() && is_finite(results_[rank][finite])) ++finite;
    if (finite < results_[rank].size()) first = std::min(finite, first.value_or(finite));
  }
  return first;
}

void ReplicatedStrategy::make_room(int rank) {
  if (team_.device(rank).kind() == DeviceKind::cpu) team_.device(rank).allocator().release_cached();
}

std::vector<nn::NamedValues> ReplicatedStrategy::state_dict() {
  std::vector<nn::NamedValues> tensors;
  team_.run("reading the weights", [&](int rank) {
    make_room(rank);
    if (rank == 0) tensors = nn::state_dict(replica(0).model());
  });
  return tensors;
}

TrainingState ReplicatedStrategy::training_state() {
  TrainingState state;
  team_.run("reading the training's state", [&](int rank) {
    make_room(rank);
    if (team_.is_first(rank)) state = replica(0).training_state();
    const CommCounts before = team_.communicator(rank).counts();
    std::vector<nn::NamedValues> dealt_out = dealt_out_state(rank);
    std::vector<nn::NamedValues> compression = compression_state(rank);
    if (team_.is_first(rank)) {
      std::ranges::move(dealt_out, std::back_inserter(state.optimizer));
      state.compression = std::move(compression);
    }
    // What a checkpoint takes is no part of a step.
    const CommCounts after = team_.communicator(rank).counts();
    reported_[static_cast<size_t>(rank)].bytes += after.bytes - before.bytes;
    reported_[static_cast<size_t>(rank)].collectives += after.collectives - before.collectives;
  });
  return state;
}

void ReplicatedStrategy::restore(const TrainingState& state) {
  team_.run("restoring the training's state", [&](int rank) {
    replica(rank).restore(state);
    restore_dealt_out(rank, state);
  });
  if (state.loss_scale) {
    skipped_steps_ = state.loss_scale->skipped;
    reported_skipped_.assign(reported_skipped_.size(), skipped_steps_);
  }
}

RankCosts ReplicatedStrategy::take_costs(int rank) {
  const auto at = static_cast<size_t>(rank);
  CachingAllocator& allocator = team_.device(rank).allocator();
  const CommCounts counts = team_.counts(rank);
  // A GPU works on while its rank thread goes on: its own clock tells.
  const PhaseTimes of_thread = replica(rank).clock().take(), of_device = replica(rank).exchange().take_device_times();
  const bool on_gpu = team_.device(rank).can_record();
  RankCosts costs{.times = on_gpu ? of_device : of_thread,
                  .samples = std::exchange(samples_[at], 0),
                  .skipped_steps = skipped_steps_ - std::exchange(reported_skipped_[at], skipped_steps_),
                  .peak_bytes = allocator.peak_bytes(),
                  .memory_at_peak = allocator.at_peak(),
                  .communication = {.bytes = counts.bytes - reported_[at].bytes,
                                    .collectives = counts.collectives - reported_[at].collectives}};
  reported_[at] = counts;
  allocator.reset_peak();
  return costs;
}

std::vector<RunningValues> ReplicatedStrategy::running_values() {
  std::vector<RunningValues> by_rank(replicas_.size());
  team_.run("comparing running statistics", [&](int rank) {
    for (const nn::RunningState* state : replica(rank).model().states())
      by_rank[static_cast<size_t>(rank)].push_back(state->value.values());
  });
  if (!team_.spans_processes()) return by_rank;
  std::vector<RunningValues> of_world;
  team_.run("gathering running statistics", [&](int rank) {
    auto all = gather_running_values(team_.host_communicator(rank), by_rank[static_cast<size_t>(rank)]);
    if (team_.is_first(rank)) of_world = std::move(all);
  });
  return of_world;
}

std::optional<double> ReplicatedStrategy::statistics_spread() { return parallel::statistics_spread(running_values()); }

void ReplicatedStrategy::broadcast_from_first(int rank, const Tensor& tensor) {
  if (tensor.elements() > 0) team_.communicator(rank).broadcast(comm_buffer(tensor), 0);
}

}  // namespace dptrain::parallel
