#include "parallel/pipeline_strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "comm/message_lanes.h"
#include "comm/process_group.h"
#include "parallel/recorded_exchanges.h"
#include "parallel/unit_profile.h"
#include "parallel/world_results.h"

namespace dptrain::parallel {
namespace {

/// The part of its replica's model that a rank's device holds.
ReplicaAssignment part_of(const PipelineCut& cut, const PipelineStep& step, int rank) {
  ReplicaAssignment part{.duties = {.updates = true, .averages = rank < step.devices()}, .stages = {}};
  for (const int stage : step.stages_on(rank % step.devices())) part.stages.push_back(cut[static_cast<size_t>(stage)]);
  return part;
}

/// Adds the rank pairs between which stages send activations and gradients.
StrategyContext with_messages(StrategyContext context, int replicas, const PipelineStep& step) {
  context.team.messages = neighbor_pairs(replicas, step.devices(), {.around = step.stages_per_device > 1});
  return context;
}

/// The step without its micro-batches.
PipelineStep step_of(const PipelineOptions& options, int64_t stages) {
  return {.schedule = options.schedule,
          .stages = static_cast<int>(stages),
          .stages_per_device = options.stages_per_device,
          .micro_batches = 0};
}

/// The cut by the costs of the model's units, measured on the first device of the world.
PipelineCut measured_cut(const StrategyContext& context, const PipelineStep& step) {
  const auto measure = [&] { return cut_by_cost(profile_units(context), step, context.team.memory_limit_bytes); };
  if (!context.team.world) return measure();
  const RanksOfProcesses& world = *context.team.world;
  ProcessGroup group(*world.exchange, world.processes, context.team.timeout_s);
  std::string ends;
  if (group.is_main())
    for (const nn::StageRange& stage : measure()) ends += fmt::format("{} ", stage.end);
  PipelineCut cut;
  std::istringstream numbers(group.from_main(ends));
  for (int end = 0; numbers >> end;) cut.push_back({.begin = cut.empty() ? 0 : cut.back().end, .end = end});
  return cut;
}

}  // namespace

std::unique_ptr<Strategy> PipelineStrategy::make(const StrategyContext& context, const PipelineOptions& options) {
  const auto units = unit_names_of(context);
  const int world_size = context.team.logged ? context.team.logged->ranks : context.world_size();
  PipelineStep step = step_of(options, int64_t{world_size} / options.replicas * options.stages_per_device);
  step.micro_batches = options.micro_batches;
  require_cut(options.cut, units, step.stages, step.devices());
  const PipelineCut cut =
      options.cut.automatic() ? measured_cut(context, step) : cut_as_listed(options.cut, units, step.stages);
  return std::make_unique<PipelineStrategy>(context, options, cut);
}

PipelineStrategy::PipelineStrategy(const StrategyContext& context, const PipelineOptions& options,
                                   const PipelineCut& cut)
    : ReplicatedStrategy(with_messages(context, options.replicas, step_of(options, std::ssize(cut))),
                         [&](int world_rank) { return part_of(cut, step_of(options, std::ssize(cut)), world_rank); }),
      cut_(cut),
      replicas_(options.replicas),
      step_(step_of(options, std::ssize(cut))),
      flush_(options.micro_batches),
      averages_weights_(context.replica.average_decay.has_value()),
      sums_(static_cast<size_t>(ranks())),
      has_stepped_(sums_.size()),
      agreements_(team(), context.replica.input.text.has_value()),
      steps_(team(), context.replica.steps_in_flight) {
  make_stages(context.planted);
  const std::vector<StageFacts> facts = exchange_facts();
  shares_statistics_ = std::ranges::any_of(facts, &StageFacts::shares_statistics);
  agree_on_recording(context);
  form_groups(context);
  find_ties(facts);
}

std::vector<PipelineStages::Position> PipelineStrategy::positions_on(int rank) {
  const auto on_device_of = [&](int stage) {
    const int world_rank = rank_of(replica_of(rank), step_.device_of(stage));
    return StageLink::Peer{.rank = world_rank, .kind = team().kind(world_rank)};
  };
  std::vector<PipelineStages::Position> positions;
  for (const int stage : step_.stages_on(device_of(rank))) {
    PipelineStages::Position& position = positions.emplace_back();
    position.stage = stage;
    position.units = cut_[static_cast<size_t>(stage)];
    if (stage > 0) position.previous = on_device_of(stage - 1);
    if (stage + 1 < step_.stages) position.next = on_device_of(stage + 1);
  }
  return positions;
}

void PipelineStrategy::make_stages(PlantedFault planted) {
  for (int rank = 0; rank < ranks(); ++rank) {
    const StageLink::Ends ends{.tensors = team().communicator(rank), .forms = team().host_communicator(rank)};
    stages_.push_back(std::make_unique<PipelineStages>(replica(rank), ends, positions_on(rank), planted));
  }
}

void PipelineStrategy::agree_on_recording(const StrategyContext& context) {
  if (!team().spans_processes() || team().is_logged()) return;
  const WorldShape& shape = context.team.world->shape;
  bool is_one_each = true;
  for (int process = 0; process < shape.processes(); ++process) is_one_each &= shape.ranks_of(process).size() == 1;
  // A GPU that sends by NCCL waits for another process's GPU, and a GPU beside that one may wait for both to record.
  if (is_one_each) return;
  for (int rank = 0; rank < ranks(); ++rank) agreements_.join(rank, stages(rank).recorder());
}

std::vector<StageFacts> PipelineStrategy::exchange_facts() {
  std::vector<StageFacts> facts;
  for (int rank = 0; rank < ranks(); ++rank) facts.push_back(StageFacts::of(replica(rank)));
  // A logged world contains one whole replica; the others are like it.
  if (!team().spans_processes() || team().is_logged()) return facts;
  std::vector<StageFacts> of_world;
  team().run("exchanging what stages hold", [&](int rank) {
    const auto texts = exchange_texts(team().host_communicator(rank), facts[static_cast<size_t>(rank)].text());
    if (rank == 0) std::ranges::transform(texts, std::back_inserter(of_world), StageFacts::of_text);
  });
  return of_world;
}

void PipelineStrategy::form_groups(const StrategyContext& context) {
  const bool updates_meet = context.replica.clip_norm || context.replica.precision == Precision::fp16;
  for (int r = 0; updates_meet && r < replicas_; ++r) {
    std::vector<int> ranks;
    for (int d = 0; d < devices(); ++d) ranks.push_back(rank_of(r, d));
    const auto members = team().form_world_group(ranks);
    for (size_t i = 0; i < ranks.size(); ++i)
      if (members[i] != nullptr) sums_[static_cast<size_t>(ranks[i] - first_rank())].of_parts = members[i];
  }
}

void PipelineStrategy::find_ties(const std::vector<StageFacts>& facts) {
  // Ties are matched by name, because each device has a model of its own.
  std::set<std::string> borrowed;
  for (int d = 0; d < devices(); ++d)
    borrowed.insert(facts[static_cast<size_t>(d)].borrowed.begin(), facts[static_cast<size_t>(d)].borrowed.end());
  for (const std::string& name : borrowed) {
    for (int r = 0; r < replicas_; ++r) {
      std::vector<int> ranks;
      for (int d = 0; d < devices(); ++d)
        if (std::ranges::count(facts[static_cast<size_t>(d)].parameters, name) > 0) ranks.push_back(rank_of(r, d));
      const auto members = team().form_world_group(ranks);
      for (size_t i = 0; i < ranks.size(); ++i) {
        if (members[i] == nullptr) continue;
        const int own = ranks[i] - first_rank();
        const auto& parameters = replica(own).model().parameters();
        sums_[static_cast<size_t>(own)].ties.push_back(
            {.parameter = *std::ranges::find(parameters, name, &Parameter::name), .communicator = members[i]});
      }
    }
  }
}

std::vector<Device*> PipelineStrategy::batch_devices() {
  std::vector<Device*> devices;
  for (int r = replica_of(0); r <= replica_of(ranks() - 1); ++r) {
    // Another process may have the first stage of this process's first replica.
    const int first = rank_of(r, 0) - first_rank();
    devices.push_back(first < 0 ? nullptr : &team().device(first));
  }
  return devices;
}

void PipelineStrategy::train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  PipelineStep step = step_;
  step.micro_batches = static_cast<int64_t>(batch->micro_batches.size());
  step.flush = flush_;
  if (step.micro_batches > step_.micro_batches) step_ = step;
  // Each sample counts once, on the rank that computes its loss.
  for (int rank = 0; rank < ranks(); ++rank)
    for (const BatchPart* part : is_last(rank) ? parts_on(*batch, rank) : StepParts())
      count_samples(rank, part->samples());
  steps_.give(numbers, [this, batch = std::move(batch), numbers, step](int rank) {
    Replica& own = replica(rank);
    const InPhase computing(own.clock(), Phase::compute);
    const StepParts parts = parts_on(*batch, rank);
    own.begin_step(parts, numbers, totals_of(*batch), is_last(rank) ? KeptResults::of(parts) : KeptResults());
    statistics(rank).begin_step(batch->samples);
    agreements_.begin_step(rank, *batch);
    stages(rank).make_step(parts, [&](bool rehearses) { give_step(rank, step, parts, rehearses); });
    statistics(rank).end_step(parts, batch->samples);
    end_step(rank);
    has_stepped_[static_cast<size_t>(rank)] = true;
  });
}

void PipelineStrategy::give_step(int rank, const PipelineStep& step, const StepParts& parts, bool rehearses) {
  Replica& own = replica(rank);
  StepExchange& exchange = own.exchange();
  if (!rehearses) exchange.stamp(StepExchange::Point::begun);
  // If the batch norms of any stage share statistics, all replicas make the same passes, with or without samples.
  stages(rank).add_gradients(step, parts, shares_statistics_);
  if (!rehearses) {
    exchange.stamp(StepExchange::Point::computed);
    add_other_gradients(rank);
  }
  Communicator* of_parts = sums_[static_cast<size_t>(rank)].of_parts;
  const SumOverPipeline sum = [&](const Tensor& tensor) { add_up(rank, *of_parts, tensor); };
  const auto update = [&] {
    own.update_and_publish([&] { own.update(of_parts == nullptr ? SumOverPipeline() : sum); });
  };
  // In an update that needs all parts of a replica, its devices wait for each other.
  if (of_parts == nullptr)
    stages(rank).recorder().run_without_results(update);
  else if (!rehearses)
    update();
}

void PipelineStrategy::add_other_gradients(int rank) {
  const Sums& sums = sums_[static_cast<size_t>(rank)];
  const Tensor& gradients = replica(rank).model().gradients();
  const bool left_out = leaves_last_sum_out() && device_of(rank) == 0;
  if (replicas_ > 1 && gradients.elements() > 0 && !left_out) add_up(rank, same_stages_communicator(rank), gradients);
  for (const auto& [parameter, communicator] : sums.ties) add_up(rank, *communicator, parameter->gradient());
}

void PipelineStrategy::add_up(int rank, Communicator& communicator, const Tensor& tensor) {
  const InPhase communicating(replica(rank).clock(), Phase::communication);
  communicator.begin_recordable(!has_stepped_[static_cast<size_t>(rank)]);
  communicator.all_reduce(comm_buffer(tensor));
  communicator.end_recordable();
}

void PipelineStrategy::broadcast_from_first_replica(int rank, const Tensor& tensor) {
  if (replicas_ > 1 && tensor.elements() > 0) same_stages_communicator(rank).broadcast(comm_buffer(tensor), 0);
}

void PipelineStrategy::share_weights(int rank) {
  // All replicas made the same updates; only the batch norms' running statistics differ.
  broadcast_from_first_replica(rank, replica(rank).model().running_states());
}

void PipelineStrategy::swap_average(int rank) {
  if (!averages_weights_) return;
  if (replica_of(rank) == 0) replica(rank).average()->swap_with(replica(rank).model().weights());
  if (replicas_ > 1) broadcast_from_first_replica(rank, replica(rank).model().weights());
  replica(rank).model().refresh_copies();
}

}  // namespace dptrain::parallel
