#include "parallel/pipeline_strategy.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "parallel/joined_state.h"
#include "parallel/unit_profile.h"

namespace dptrain::parallel {
namespace {

/// Blocks that a pipeline evaluates between two looks at whether to stop, by stage: the more, the less of its time is
/// spent on filling and emptying it.
constexpr int kBlocksOfStage = 4;

/// What a device has of its replica's model.
ReplicaPart part_of(const PipelineCut& cut, int rank) {
  const auto stages = static_cast<int>(cut.size());
  return {.duties = {.updates = true, .averages = rank < stages}, .stages = cut[static_cast<size_t>(rank % stages)]};
}

}  // namespace

std::unique_ptr<Strategy> PipelineStrategy::make(const StrategyContext& context, const PipelineOptions& options) {
  const auto units = unit_names_of(context);
  const PipelineStep step{.schedule = options.schedule,
                          .stages = static_cast<int>(context.team.devices.size()) / options.replicas,
                          .micro_batches = options.micro_batches};
  require_cut(options.cut, units, step.stages);
  const PipelineCut cut = options.cut.automatic()
                              ? cut_by_cost(profile_units(context), step, context.team.memory_limit_bytes)
                              : cut_as_listed(options.cut, units, step.stages);
  return std::make_unique<PipelineStrategy>(context, options, cut);
}

PipelineStrategy::PipelineStrategy(const StrategyContext& context, const PipelineOptions& options,
                                   const PipelineCut& cut)
    : ReplicatedStrategy(context, [&](int rank) { return part_of(cut, rank); }),
      replicas_(options.replicas),
      step_{.schedule = options.schedule, .stages = static_cast<int>(cut.size()), .micro_batches = 0},
      flush_(options.micro_batches),
      sums_(static_cast<size_t>(ranks())),
      steps_(team(), context.replica.steps_in_flight) {
  for (int rank = 0; rank < ranks(); ++rank) {
    const int stage = rank % step_.stages;
    const auto neighbor = [&](int other) { return StageLink::Peer{.rank = other, .kind = device(other).kind()}; };
    PipelineStage::Neighbors neighbors;
    if (stage > 0) neighbors.previous = neighbor(rank - 1);
    if (stage + 1 < step_.stages) neighbors.next = neighbor(rank + 1);
    stages_.push_back(
        std::make_unique<PipelineStage>(replica(rank), team().communicator(rank), neighbors, context.planted));
    shares_statistics_ |= replica(rank).shares_statistics();
  }
  form_groups(context);
  find_ties();
}

void PipelineStrategy::form_groups(const StrategyContext& context) {
  const bool updates_meet = context.replica.clip_norm || context.replica.precision == Precision::fp16;
  for (int r = 0; updates_meet && r < replicas_; ++r) {
    std::vector<int> ranks;
    for (int s = 0; s < stages(); ++s) ranks.push_back(rank_of(r, s));
    const auto members = team().form_group(ranks);
    for (size_t i = 0; i < ranks.size(); ++i) sums_[static_cast<size_t>(ranks[i])].of_parts = members[i];
  }
}

void PipelineStrategy::find_ties() {
  // By name: each stage has a model of its own.
  const auto parameter_on = [&](int rank, const std::string& name) -> const Parameter* {
    const auto& parameters = replica(rank).model().parameters();
    const auto found = std::ranges::find(parameters, name, &Parameter::name);
    return found == parameters.end() ? nullptr : *found;
  };
  std::set<std::string> borrowed;
  for (int s = 0; s < stages(); ++s)
    for (const Parameter* parameter : replica(s).model().borrowed_parameters()) borrowed.insert(parameter->name());
  for (const std::string& name : borrowed) {
    for (int r = 0; r < replicas_; ++r) {
      std::vector<int> ranks;
      for (int s = 0; s < stages(); ++s)
        if (parameter_on(rank_of(r, s), name) != nullptr) ranks.push_back(rank_of(r, s));
      const auto members = team().form_group(ranks);
      for (size_t i = 0; i < ranks.size(); ++i)
        sums_[static_cast<size_t>(ranks[i])].ties.push_back(
            {.parameter = parameter_on(ranks[i], name), .communicator = members[i]});
    }
  }
}

std::vector<Device*> PipelineStrategy::batch_devices() {
  std::vector<Device*> devices;
  for (int r = 0; r < replicas_; ++r) devices.push_back(&team().device(rank_of(r, 0)));
  return devices;
}

std::vector<StageAction> PipelineStrategy::actions_on(int rank, const PipelineStep& step,
                                                      const StepParts& parts) const {
  std::vector<StageAction> actions = actions_of(step, stage_of(rank));
  if (!shares_statistics_)
    std::erase_if(actions, [&](const StageAction& action) {
      return parts[static_cast<size_t>(action.micro_batch)]->samples() == 0;
    });
  return actions;
}

void PipelineStrategy::train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  PipelineStep step = step_;
  step.micro_batches = static_cast<int64_t>(batch->micro_batches.size());
  step.flush = flush_;
  if (step.micro_batches > step_.micro_batches) step_ = step;
  // Each counts once: where its loss is computed.
  for (int r = 0; r < replicas_; ++r)
    for (const BatchPart* part : parts_of(*batch, r)) count_samples(rank_of(r, stages() - 1), part->samples());
  steps_.give(numbers, [this, batch = std::move(batch), numbers, step](int rank) {
    Replica& own = replica(rank);
    StepExchange& exchange = own.exchange();
    const InPhase computing(own.clock(), Phase::compute);
    const StepParts parts = parts_of(*batch, replica_of(rank));
    const bool last = stage_of(rank) + 1 == stages();
    own.begin_step(parts, numbers, StepTotals::of(*batch), last ? KeptResults::of(parts) : KeptResults());
    statistics(rank).begin_step();
    exchange.stamp(StepExchange::Point::begun);
    stage(rank).add_gradients(actions_on(rank, step, parts), parts);
    exchange.stamp(StepExchange::Point::computed);
    add_other_gradients(rank);
    exchange.stamp(StepExchange::Point::reduced);
    Communicator* of_parts = sums_[static_cast<size_t>(rank)].of_parts;
    own.update(of_parts == nullptr ? SumOverParts() : [&](const Tensor& tensor) {
      const InPhase communicating(own.clock(), Phase::communication);
      of_parts->all_reduce(comm_buffer(tensor));
    });
    exchange.stamp(StepExchange::Point::updated);
    exchange.publish();
    statistics(rank).end_step(parts, batch->samples);
    end_step(rank);
  });
}

void PipelineStrategy::add_other_gradients(int rank) {
  const Sums& sums = sums_[static_cast<size_t>(rank)];
  const InPhase communicating(replica(rank).clock(), Phase::communication);
  const Tensor& gradients = replica(rank).model().gradients();
  if (replicas_ > 1 && gradients.elements() > 0) part_communicator(rank).all_reduce(comm_buffer(gradients));
  for (const auto& [parameter, communicator] : sums.ties) communicator->all_reduce(comm_buffer(parameter->gradient()));
}

void PipelineStrategy::broadcast_from_first_replica(int rank, const Tensor& tensor) {
  if (replicas_ > 1 && tensor.elements() > 0) part_communicator(rank).broadcast(comm_buffer(tensor), 0);
}

void PipelineStrategy::share_weights(int rank) {
  // All replicas made the same updates; only the running statistics of the batch norms are each one's own.
  broadcast_from_first_replica(rank, replica(rank).model().running_states());
}

void PipelineStrategy::swap_average(int rank) {
  if (replica(stage_of(rank)).average() == nullptr) return;
  if (replica_of(rank) == 0) replica(rank).average()->swap_with(replica(rank).model());
  if (replicas_ == 1) return;
  broadcast_from_first_replica(rank, replica(rank).model().weights());
  replica(rank).model().refresh_copies();
}

std::optional<Score> PipelineStrategy::evaluate(const Dataset& dataset, const std::function<bool()>& stopped) {
  const int64_t size = evaluation_samples(dataset);
  const int64_t blocks = (dataset.samples() + size - 1) / size, at_once = int64_t{kBlocksOfStage} * ranks();
  team().run("evaluation", [&](int rank) {
    share_weights(rank);
    swap_average(rank);
  });
  std::vector<StepResults> results(static_cast<size_t>(blocks));
  bool complete = true;
  for (int64_t first = 0; first < blocks && complete; first += at_once) {
    complete = !stopped();
    if (!complete) break;
    team().run("evaluation", [&](int rank) {
      std::vector<PipelineStage::Block> own;
      std::vector<int64_t> numbers;
      for (int64_t b = first + replica_of(rank); b < std::min(first + at_once, blocks); b += replicas_) {
        own.push_back({.begin = b * size, .end = std::min((b + 1) * size, dataset.samples())});
        numbers.push_back(b);
      }
      auto of_blocks = stage(rank).evaluate(dataset, own);
      for (size_t i = 0; i < of_blocks.size(); ++i) results[static_cast<size_t>(numbers[i])] = std::move(of_blocks[i]);
    });
  }
  team().run("evaluation", [&](int rank) { swap_average(rank); });
  if (!complete) return std::nullopt;
  return total(results);
}

TrainingState PipelineStrategy::joined(const std::function<TrainingState(Replica&)>& state_of) {
  std::vector<TrainingState> parts(static_cast<size_t>(stages()));
  std::vector<const nn::Model*> models;
  for (int s = 0; s < stages(); ++s) models.push_back(&replica(s).model());
  team().run("reading the training's state", [&](int rank) {
    make_room(rank);
    if (replica_of(rank) == 0) parts[static_cast<size_t>(rank)] = state_of(replica(rank));
  });
  return joined_state(std::move(parts), models);
}

std::vector<nn::NamedValues> PipelineStrategy::state_dict() {
  return joined([](Replica& part) {
           return TrainingState{
               .model = nn::state_dict(part.model()), .optimizer = {}, .average = {}, .loss_scale = {}};
         })
      .model;
}

TrainingState PipelineStrategy::training_state() {
  return joined([](Replica& part) { return part.training_state(); });
}

std::optional<double> PipelineStrategy::statistics_spread() {
  std::vector<RunningValues> by_rank = running_values(), by_replica(static_cast<size_t>(replicas_));
  for (int rank = 0; rank < ranks(); ++rank)
    std::ranges::move(by_rank[static_cast<size_t>(rank)],
                      std::back_inserter(by_replica[static_cast<size_t>(replica_of(rank))]));
  return parallel::statistics_spread(by_replica);
}

std::optional<PipelineFigures> PipelineStrategy::take_pipeline_figures() {
  PipelineFigures figures{
      .stages = {}, .micro_batches = step_.micro_batches, .schedule = std::string(schedule_name(step_.schedule))};
  std::vector<StageTimes> times(static_cast<size_t>(stages()));
  bool measured = true;
  for (int rank = 0; rank < ranks(); ++rank) {
    times[static_cast<size_t>(stage_of(rank))] += stage(rank).take_times();
    measured &= device(rank).kind() == DeviceKind::cpu;
  }
  StageTimes all;
  std::vector<StageSeconds> seconds(times.size(), {.forward = 1, .backward = 1});
  for (int s = 0; s < stages(); ++s) {
    const nn::Model& model = replica(s).model();
    std::vector<std::string>& names = figures.stages.emplace_back();
    for (int unit = model.placed().begin; unit < model.placed().end; ++unit) names.push_back(model.stage_name(unit));
    const StageTimes& own = times[static_cast<size_t>(s)];
    all += own;
    if (!measured || own.micro_batches == 0) continue;
    const auto passes = static_cast<double>(own.micro_batches);
    seconds[static_cast<size_t>(s)] = {.forward = own.forward_s / passes, .backward = own.backward_s / passes};
  }
  figures.predicted_bubble = predicted_bubble(step_, seconds);
  const double working = all.forward_s + all.backward_s, whole = working + all.waiting_s;
  if (measured && whole > 0) figures.bubble = all.waiting_s / whole;
  return figures;
}

}  // namespace dptrain::parallel
