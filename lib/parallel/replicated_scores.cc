// Scores of evaluations and steps: keeping them, gathering them from other processes, adding them up.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <utility>

#include "parallel/replicated_strategy.h"
#include "parallel/world_results.h"

namespace dptrain::parallel {
namespace {

/// Number of steps whose scores are sent to another process together.
constexpr int64_t kStepsOfScores = 32;

bool is_finite(const StepResults& step) {
  return std::ranges::all_of(step.outputs, [](const auto& output) {
    return std::ranges::all_of(output.losses, [](double loss) { return std::isfinite(loss); });
  });
}

bool has_losses(const StepResults& step) {
  return std::ranges::any_of(step.outputs, [](const auto& output) { return !output.losses.empty(); });
}

}  // namespace

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

int64_t ReplicatedStrategy::evaluation_samples(const Dataset& dataset) const {
  const int64_t usual = evaluation_block(dataset, team_.kind(0));
  return most_at_once_ > 0 ? std::min(usual, most_at_once_) : usual;
}

std::optional<Score> ReplicatedStrategy::evaluate(const Dataset& dataset, const EvaluationWatch& watch) {
  const int64_t size = evaluation_samples(dataset);
  const int64_t blocks = (dataset.samples() + size - 1) / size;
  std::vector<StepResults> results(static_cast<size_t>(blocks));
  std::atomic<bool> incomplete = false;
  team_.run("evaluation", [&](int rank) {
    finish_updates(rank);
    share_weights(rank);
    swap_average(rank);
    do_uncounted(rank, [&] { evaluate_blocks(rank, {.dataset = dataset, .size = size}, watch, results, incomplete); });
    swap_average(rank);
    if (team_.spans_processes() && any_rank(team_.host_communicator(rank), incomplete)) {
      incomplete = true;
    } else if (team_.spans_processes()) {
      gather_blocks(rank, results);
    }
  });
  if (incomplete) return std::nullopt;
  return total(results);
}

void ReplicatedStrategy::evaluate_blocks(int rank, const EvaluationBlocks& of, const EvaluationWatch& watch,
                                         std::vector<StepResults>& results, std::atomic<bool>& incomplete) {
  const auto blocks = std::ssize(results);
  // Replicas that gather weights for every block must have equally many blocks and stop together.
  const bool with_others = replica(rank).evaluates_with_others();
  for (int64_t first = 0; first < blocks && (with_others || !incomplete); first += world_size()) {
    const int64_t block = first + first_rank() + rank;
    if (block >= blocks && !with_others) return;
    const bool stopped = watch.stopped();
    if (with_others ? any_rank(team_.host_communicator(rank), stopped) : stopped) {
      incomplete = true;
      return;
    }
    const auto begin_of = [&](int64_t number) { return std::min(number * of.size, of.dataset.samples()); };
    const int64_t together = begin_of(first + world_size()) - begin_of(first);
    if (block >= blocks) return replica(rank).evaluate_nothing(together);
    if (rank == 0 && watch.done) watch.done(begin_of(block));
    const BatchPart samples =
        load_block(of.dataset, begin_of(block), begin_of(block + 1), team_.device(rank), evaluated_rows());
    results[static_cast<size_t>(block)] = replica(rank).evaluate(samples, together);
  }
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

void ReplicatedStrategy::swap_average(int rank) {
  if (!averages_weights_) return;
  if (team_.is_first(rank)) replica(0).average()->swap_with(replica(0).model().weights());
  broadcast_from_first(rank, replica(rank).model().weights());
  replica(rank).model().refresh_copies();
}

void ReplicatedStrategy::end_step(int rank) {
  replica(rank).end_step();
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
  // Between processes, results are sent together, and seldom enough to cost nothing.
  const bool travels = team_.spans_processes();
  if (travels && !is_in_step() && !all) return {};
  if (travels && !all && ++score_calls_ % kStepsOfScores != 0) return {};
  if (all) meet();
  if (all || travels) {
    team_.run("finishing the steps under way", [&](int rank) {
      if (all) finish_updates(rank);
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
    scores.back().diverged_ranks = diverged_ranks(of_ranks);
    // Other processes have the results of their own ranks only.
    if (team_.is_first(0)) scores.back().noise = noise_of_step(of_ranks);
  }
  return scores;
}

std::vector<int> ReplicatedStrategy::diverged_ranks(const std::vector<StepResults>& of_ranks) const {
  std::vector<int> diverged;
  bool some_are_finite = false;
  // The first entry is rank 0 of the world on its process, else this process's first rank.
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (!is_finite(of_ranks[rank]))
      diverged.push_back(first_rank() + static_cast<int>(rank));
    else
      some_are_finite |= has_losses(of_ranks[rank]);
  }
  return some_are_finite ? diverged : std::vector<int>();
}

std::optional<DivergedStep> ReplicatedStrategy::diverged_step() {
  if (is_in_step() || !team_.spans_processes()) return std::nullopt;
  std::optional<DivergedStep> first;
  const std::lock_guard lock(results_mutex_);
  for (size_t rank = 0; rank < finite_.size(); ++rank) {
    size_t& finite = finite_[rank];
    while (finite < results_[rank].size() && is_finite(results_[rank][finite])) ++finite;
    if (finite < results_[rank].size() && (!first || finite < first->step))
      first = {.step = finite, .rank = first_rank() + static_cast<int>(rank)};
  }
  return first;
}

}  // namespace dptrain::parallel
