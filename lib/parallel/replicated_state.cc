// The values that replicas hold: reading, comparing and restoring weights, the training state and running statistics.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "parallel/replicated_strategy.h"
#include "parallel/world_results.h"

namespace dptrain::parallel {

void ReplicatedStrategy::make_room(int rank) {
  if (team_.device(rank).kind() == DeviceKind::cpu) team_.device(rank).allocator().release_cached();
}

void ReplicatedStrategy::do_uncounted(int rank, const std::function<void()>& work) {
  const CommCounts before = team_.counts(rank);
  work();
  reported_[static_cast<size_t>(rank)] += team_.counts(rank) - before;
}

std::vector<nn::NamedValues> ReplicatedStrategy::state_dict() {
  std::vector<nn::NamedValues> tensors;
  team_.run("reading the weights", [&](int rank) {
    finish_updates(rank);
    make_room(rank);
    const nn::ReadParameter read = read_weights(rank);
    do_uncounted(rank, [&] {
      if (rank > 0 && !read) return;
      auto own = nn::state_dict(replica(rank).model(), read);
      if (rank == 0) tensors = std::move(own);
    });
  });
  return tensors;
}

void ReplicatedStrategy::for_each_state(const std::function<void(const nn::NamedValues&)>& take) {
  team_.run("reading the weights", [&](int rank) {
    finish_updates(rank);
    const nn::ReadParameter read = read_weights(rank);
    const auto keep = [&](const nn::NamedValues& tensor) {
      if (rank == 0) take(tensor);
    };
    do_uncounted(rank, [&] {
      if (rank == 0 || read) nn::for_each_state(replica(rank).model(), keep, read);
    });
  });
}

std::vector<WeightDigests> ReplicatedStrategy::weight_digests() {
  std::vector<WeightDigests> digests(replicas_.size());
  team_.run("comparing weights", [&](int rank) {
    finish_updates(rank);
    if (has_comparable_weights(rank)) digests[static_cast<size_t>(rank)] = digests_on(rank);
  });
  return digests;
}

TrainingState ReplicatedStrategy::training_state() {
  TrainingState state;
  team_.run("reading the training state", [&](int rank) {
    finish_updates(rank);
    make_room(rank);
    const nn::ReadParameter read = read_weights(rank);
    do_uncounted(rank, [&] {
      if (team_.is_first(rank))
        state = replica(0).training_state(read);
      else if (read)
        nn::state_dict(replica(rank).model(), read);
      std::vector<nn::NamedValues> dealt_out = dealt_out_state(rank);
      std::vector<nn::NamedValues> compression = compression_state(rank);
      if (!team_.is_first(rank)) return;
      std::ranges::move(dealt_out, std::back_inserter(state.optimizer));
      state.compression = std::move(compression);
    });
  });
  return state;
}

void ReplicatedStrategy::restore(const TrainingState& state) {
  team_.run("restoring the training state", [&](int rank) {
    replica(rank).restore(state);
    restore_dealt_out(rank, state);
  });
  if (state.loss_scale) {
    skipped_steps_ = state.loss_scale->skipped;
    reported_skipped_.assign(reported_skipped_.size(), skipped_steps_);
  }
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

}  // namespace dptrain::parallel
