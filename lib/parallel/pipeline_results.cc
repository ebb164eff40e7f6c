// Results of a pipeline: scores of test samples, the whole model's state, and the times of its stages.
#include <algorithm>
#include <iterator>
#include <utility>

#include "parallel/joined_state.h"
#include "parallel/pipeline_strategy.h"
#include "parallel/world_results.h"

namespace dptrain::parallel {
namespace {

/// Blocks per device that a pipeline evaluates before it checks again whether to stop. With more blocks, less of the
/// time goes into filling and emptying the pipeline.
constexpr int kBlocksOfDevice = 4;

// A stage's times are sent as this many numbers, one stage after the other.
constexpr size_t kTimesOfStage = 5;

void append_numbers(std::vector<double>& numbers, const StageTimes& of) {
  const auto micro_batches = static_cast<double>(of.micro_batches);
  for (const double number : {of.forward_s, of.backward_s, of.backward_weights_s, of.waiting_s, micro_batches})
    numbers.push_back(number);
}

std::vector<StageTimes> times_of_numbers(const std::vector<double>& numbers) {
  std::vector<StageTimes> times;
  for (size_t at = 0; at + kTimesOfStage <= numbers.size(); at += kTimesOfStage)
    times.push_back({.forward_s = numbers[at],
                     .backward_s = numbers[at + 1],
                     .backward_weights_s = numbers[at + 2],
                     .waiting_s = numbers[at + 3],
                     .micro_batches = static_cast<int64_t>(numbers[at + 4])});
  return times;
}

}  // namespace

bool PipelineStrategy::any_process(bool own) {
  if (!team().spans_processes()) return own;
  bool any = false;
  team().run("evaluation", [&](int rank) {
    const bool some = any_rank(team().host_communicator(rank), own);
    if (rank == 0) any = some;
  });
  return any;
}

std::optional<Score> PipelineStrategy::evaluate(const Dataset& dataset, const EvaluationWatch& watch) {
  const int64_t size = evaluation_samples(dataset);
  const int64_t blocks = (dataset.samples() + size - 1) / size, at_once = int64_t{kBlocksOfDevice} * world_size();
  team().run("evaluation", [&](int rank) {
    share_weights(rank);
    swap_average(rank);
  });
  std::vector<std::vector<StepResults>> of_ranks(static_cast<size_t>(ranks()));
  bool complete = true;
  for (int64_t first = 0; first < blocks && complete; first += at_once) {
    complete = !any_process(watch.stopped());
    if (!complete) break;
    if (watch.done) watch.done(first * size);
    team().run("evaluation", [&](int rank) {
      std::vector<PipelineStages::Block> own;
      for (int64_t b = first + replica_of(rank); b < std::min(first + at_once, blocks); b += replicas_)
        own.push_back({.begin = b * size, .end = std::min((b + 1) * size, dataset.samples())});
      PipelineStep step = step_;
      step.micro_batches = std::ssize(own);
      std::ranges::move(stages(rank).evaluate(step, dataset, own, evaluated_rows()),
                        std::back_inserter(of_ranks[static_cast<size_t>(rank)]));
    });
  }
  team().run("evaluation", [&](int rank) { swap_average(rank); });
  if (!complete) return std::nullopt;
  return total(in_order(std::move(of_ranks)));
}

std::vector<StepResults> PipelineStrategy::in_order(std::vector<std::vector<StepResults>> of_ranks) {
  if (team().spans_processes()) {
    std::vector<std::vector<StepResults>> of_world;
    team().run("evaluation", [&](int rank) {
      auto all = parallel::gather_results(team().host_communicator(rank), of_ranks[static_cast<size_t>(rank)]);
      if (team().is_first(rank)) of_world = std::move(all);
    });
    if (first_rank() == 0) of_ranks = std::move(of_world);
  }
  // Blocks are dealt to the replicas in turn. Only a replica's last stage knows their results.
  std::vector<StepResults> results;
  size_t most = 0;
  for (const auto& of_rank : of_ranks) most = std::max(most, of_rank.size());
  for (size_t i = 0; i < most; ++i)
    for (auto& of_rank : of_ranks)
      if (i < of_rank.size()) results.push_back(std::move(of_rank[i]));
  return results;
}

TrainingState PipelineStrategy::joined(bool everywhere, const std::function<TrainingState(Replica&)>& state_of) {
  const bool is_first = first_rank() == 0;
  std::vector<std::optional<PartState>> parts(cut_.size());
  team().run("reading the training state", [&](int rank) {
    make_room(rank);
    // No two of the first replica's ranks have the same stages.
    if (rank >= devices()) return;
    Communicator& messages = team().host_communicator(rank);
    const bool is_sent = !is_first && replica_of(rank) == 0;
    if (!is_first && !is_sent && !everywhere) return;
    std::vector<PartState> own = state_by_range(replica(rank).model(), state_of(replica(rank)));
    auto range = own.begin();
    for (const int stage : step_.stages_on(device_of(rank))) {
      if (is_sent) send_part_state(messages, *range, 0);
      if (is_first || everywhere) parts[static_cast<size_t>(stage)] = std::move(*range);
      ++range;
    }
    if (!team().is_first(rank)) return;
    for (int other = ranks(); other < devices(); ++other)
      for (const int stage : step_.stages_on(other))
        parts[static_cast<size_t>(stage)] = receive_part_state(messages, other);
  });
  std::vector<PartState> whole;
  for (std::optional<PartState>& part : parts)
    if (part) whole.push_back(std::move(*part));
  return whole.empty() ? TrainingState() : joined_state(std::move(whole));
}

std::vector<nn::NamedValues> PipelineStrategy::state_dict() {
  return joined(true,
                [](Replica& part) {
                  return TrainingState{
                      .model = nn::state_dict(part.model()), .optimizer = {}, .average = {}, .loss_scale = {}};
                })
      .model;
}

void PipelineStrategy::for_each_state(const std::function<void(const nn::NamedValues&)>& take) {
  std::vector<nn::NamedValues> state = state_dict();
  std::ranges::sort(state, {}, &nn::NamedValues::name);
  std::ranges::for_each(state, take);
}

TrainingState PipelineStrategy::training_state() {
  return joined(false, [](Replica& part) { return part.training_state(); });
}

std::optional<double> PipelineStrategy::statistics_spread() {
  if (replicas_ == 1) return std::nullopt;
  std::vector<RunningValues> by_rank = running_values(), by_replica(static_cast<size_t>(replicas_));
  for (size_t world_rank = 0; world_rank < by_rank.size(); ++world_rank)
    std::ranges::move(by_rank[world_rank], std::back_inserter(by_replica[world_rank / static_cast<size_t>(devices())]));
  return parallel::statistics_spread(by_replica);
}

std::vector<std::vector<StageTimes>> PipelineStrategy::take_times_of_all() {
  std::vector<std::vector<StageTimes>> times(static_cast<size_t>(ranks()));
  team().run("reading the stages' times",
             [&](int rank) { times[static_cast<size_t>(rank)] = stages(rank).take_times(); });
  if (!team().spans_processes() || team().is_logged()) return times;
  std::vector<std::vector<StageTimes>> of_world;
  team().run("gathering the stages' times", [&](int rank) {
    std::vector<double> own;
    for (const StageTimes& stage : times[static_cast<size_t>(rank)]) append_numbers(own, stage);
    for (const std::vector<double>& of_rank : gather_numbers(team().host_communicator(rank), std::move(own)))
      of_world.push_back(times_of_numbers(of_rank));
  });
  return of_world;
}

std::optional<PipelineFigures> PipelineStrategy::take_pipeline_figures() {
  PipelineFigures figures{.stages = {},
                          .stages_per_device = step_.stages_per_device,
                          .micro_batches = step_.micro_batches,
                          .schedule = std::string(schedule_name(step_.schedule))};
  const std::vector<std::vector<StageTimes>> by_rank = take_times_of_all();
  if (by_rank.empty()) return std::nullopt;
  std::vector<StageTimes> times(cut_.size());
  for (size_t world_rank = 0; world_rank < by_rank.size(); ++world_rank) {
    auto of_stage = by_rank[world_rank].begin();
    for (const int stage : step_.stages_on(static_cast<int>(world_rank) % devices()))
      times[static_cast<size_t>(stage)] += *of_stage++;
  }
  const bool measured = !team().is_logged() &&
                        std::ranges::all_of(times, [](const StageTimes& stage) { return stage.micro_batches > 0; });
  StageTimes all;
  std::vector<StageSeconds> seconds(times.size(), {.forward = 1, .backward = 1, .backward_weights = 1});
  const std::vector<std::string> units = unit_names(replica(0).model());
  for (size_t s = 0; s < times.size(); ++s) {
    figures.stages.emplace_back(units.begin() + cut_[s].begin, units.begin() + cut_[s].end);
    const StageTimes& own = times[s];
    all += own;
    if (!measured) continue;
    const auto passes = static_cast<double>(own.micro_batches);
    seconds[s] = {.forward = own.forward_s / passes,
                  .backward = own.backward_s / passes,
                  .backward_weights = own.backward_weights_s / passes};
  }
  figures.predicted_bubble = predicted_bubble(step_, seconds);
  const double working = all.forward_s + all.backward_s + all.backward_weights_s, whole = working + all.waiting_s;
  if (measured && whole > 0) figures.bubble = all.waiting_s / whole;
  return figures;
}

}  // namespace dptrain::parallel
