#include "plan/planned_step.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>
#include <utility>

#include "base/check.h"
#include "device/meta_device.h"
#include "plan/model_layers.h"

namespace dptrain::plan {
namespace {

/// The number of steps that shows the peak memory. The plan describes the second step, which has the size of the first:
/// a GPU records the second step of a size, and replays it from then on.
constexpr int64_t kSteps = 5;
constexpr int64_t kToldStep = 2;

/// The parameters of the model that the ranks train together.
ParameterCounts parameters_of(const parallel::ReplicaSpec& spec) {
  const auto device = open_device({DeviceKind::cpu, 0}, {.counts_only = true});
  return parameter_counts(*spec.model.build({.device = *device}, spec.input));
}

/// The types that NCCL sums over GPUs. Such sums are part of what GPUs record. Across hosts, the GPUs of other hosts
/// count as different ones; see make_communicators.
std::vector<DType> recorded_sums(const StepRequest& request) {
  const auto& team = request.context.team;
  // Each host has the same device numbers.
  const size_t of_host = std::min(team.devices.size(), static_cast<size_t>(request.world.ranks_of(0).size()));
  std::set<int> gpus;
  for (size_t i = 0; i < of_host; ++i)
    if (team.devices[i].kind == DeviceKind::cuda) gpus.insert(team.devices[i].index);
  if (gpus.size() != of_host || request.world.ranks() == 1 || team.links) return {};
  if (request.world.processes() > 1) return {DType::f32, DType::bf16, DType::f16};
  return team.deterministic ? std::vector<DType>() : std::vector{DType::f32};
}

/// The sums in the tree's order, as in make_nccl_world_communicators.
std::optional<TreeSums> sums_by_tree(const StepRequest& request) {
  if (request.world.processes() == 1 || recorded_sums(request).empty()) return std::nullopt;
  return tree_sums(request.context.team.deterministic);
}

/// Loader options for only the samples of the ranks that are planned, from the same batches. Samples of other processes
/// are never needed.
BatchLoaderOptions of_ranks_there(const StepRequest& request, BatchLoaderOptions options, int64_t batch_samples) {
  const size_t parts = options.devices.size();
  const BatchSplit whole = options.split ? *options.split : BatchSplit::even(static_cast<int>(parts));
  options.batch_size = batch_samples;
  if (request.world.ranks() == static_cast<int>(request.context.team.devices.size())) return options;
  options.batch_size = whole.range(static_cast<int>(parts) - 1, batch_samples).second;
  std::vector<int64_t> weights = whole.weights();
  weights.resize(parts);
  options.split = BatchSplit(weights);
  options.parts_of_processes.clear();
  return options;
}

/// The batches of a training run. As many exist at once as in an actual training run: those that the strategy has, and
/// those that are loaded ahead.
class Batches {
 public:
  Batches(const std::shared_ptr<const Dataset>& data, const BatchLoaderOptions& options, int given)
      : loader_(data, options), whole_(std::min(options.batch_size, data->samples())), given_(given) {}

  int64_t epoch() const { return epoch_; }

  /// The next batch. The caller must have released the one before.
  std::shared_ptr<const Batch> next() {
    if (!alive_.empty()) alive_.pop_front();
    fill();
    if (alive_.empty()) {
      loader_.start_epoch(++epoch_);
      fill();
    }
    loader_.wait_until_full();
    return alive_.front();
  }

 private:
  void fill() {
    while (epoch_ > 0 && alive_.size() < static_cast<size_t>(given_)) {
      std::shared_ptr<const Batch> batch = loader_.next();
      // A short batch at an epoch's end shows no larger memory.
      if (batch == nullptr || batch->samples < whole_) return;
      alive_.push_back(std::move(batch));
    }
  }

  BatchLoader loader_;
  int64_t whole_;
  int given_;
  int64_t epoch_ = 0;
  std::deque<std::shared_ptr<const Batch>> alive_;
};

/// Steps and their parts.
std::vector<PlannedPart> parts_of(const std::vector<parallel::TimelineRow>& rows) {
  std::vector<PlannedPart> parts;
  for (const parallel::TimelineRow& row : rows)
    for (const TimelineSpan& span : row.spans)
      if (span.is_phase)
        parts.push_back({.name = span.name,
                         .begin = static_cast<size_t>(MetaDevice::logged_operators(span.begin)),
                         .end = static_cast<size_t>(MetaDevice::logged_operators(span.end))});
  return parts;
}

/// The parts that each rank has shown since the last call. No step may be running.
std::vector<std::vector<PlannedPart>> take_parts(parallel::Strategy& strategy, size_t ranks) {
  std::vector<std::vector<PlannedPart>> parts;
  for (const auto& rows : strategy.take_timelines()) parts.push_back(parts_of(rows));
  parts.resize(ranks);
  return parts;
}

/// The step number that a strategy gets for a plan's step. If replicas are averaged after some steps, it is a step
/// without averaging, unless every step has it.
int64_t number_of(int64_t step, const std::optional<parallel::AveragingSteps>& averaging) {
  return averaging ? averaging->warmup_steps + averaging->period * step + 1 : step;
}

/// Takes what a rank has done since its logs were cleared, and adds `costs` to earlier ones.
void take_work(const parallel::Strategy& strategy, int rank, const parallel::RankCosts& costs, const CallLog& calls,
               PlannedRank& planned) {
  planned.device = strategy.device(rank).id();
  planned.samples += costs.samples;
  planned.sent += costs.communication;
  planned.operators = strategy.device(rank).operator_log()->costs();
  planned.calls = calls;
}

}  // namespace

double PlannedRank::flops() const {
  return std::accumulate(operators.begin(), operators.end(), 0.0,
                         [](double sum, const OperatorCost& cost) { return sum + cost.flops; });
}

PlannedStep plan_step(const StepRequest& request) {
  const size_t ranks = request.context.team.devices.size();
  DPTRAIN_CHECK(ranks > 0 && static_cast<int>(ranks) <= request.world.ranks(), "{} devices in a world of {}", ranks,
                request.world.ranks());
  std::vector<CallLog> calls(ranks);
  parallel::StrategyContext context = request.context;
  context.team.logged = LoggedWorld{.ranks = request.world.ranks(),
                                    .shape = request.world,
                                    .recorded = recorded_sums(request),
                                    .by_tree = sums_by_tree(request),
                                    .calls = &calls,
                                    .operator_s = request.operator_s};
  const auto strategy = request.make(context);
  const BatchLoaderOptions loaded = request.loader(*strategy);
  const int64_t samples = request.data->samples(), batch_samples = std::min(loaded.batch_size, samples);
  Batches batches(request.data, of_ranks_there(request, loaded, batch_samples), context.replica.steps_in_flight);

  PlannedStep plan{.world_size = request.world.ranks(),
                   .batch_samples = batch_samples,
                   .steps_per_epoch = (samples + batch_samples - 1) / batch_samples,
                   .parameters = parameters_of(request.context.replica),
                   .ranks = {},
                   .store = {}};
  plan.ranks.resize(ranks);
  plan.averaging = strategy->averaging();
  const bool averages_apart = plan.averaging && plan.averaging->period > 1;
  if (averages_apart) plan.between.resize(ranks);
  // Shows all steps, because a step would be recorded again if it were no longer shown.
  strategy->show_steps({.first = 1, .last = number_of(2 * kSteps, plan.averaging)});
  for (size_t r = 0; r < ranks; ++r) strategy->take_costs(static_cast<int>(r));
  const auto keep_peaks = [&](const parallel::RankCosts& costs, PlannedRank& planned) {
    if (costs.peak_bytes <= planned.peak_bytes) return;
    planned.peak_bytes = costs.peak_bytes;
    planned.memory_at_peak = costs.memory_at_peak;
  };
  std::shared_ptr<const Batch> batch;
  for (int64_t step = 1; step <= kSteps; ++step) {
    if (step != kToldStep) {
      batch.reset();
      batch = batches.next();
    }
    for (size_t r = 0; r < ranks; ++r) {
      strategy->device(static_cast<int>(r)).operator_log()->clear();
      calls[r].clear();
    }
    const int64_t number = number_of(step, plan.averaging);
    strategy->train_step(batch, {.step = number, .epoch = batches.epoch(), .learning_rate = 1});
    strategy->take_scores(true);
    std::vector<std::vector<PlannedPart>> parts = take_parts(*strategy, ranks);
    for (size_t r = 0; r < ranks; ++r) {
      const auto rank = static_cast<int>(r);
      const parallel::RankCosts costs = strategy->take_costs(rank);
      PlannedRank& planned = plan.ranks[r];
      keep_peaks(costs, planned);
      if (step != kToldStep) continue;
      take_work(*strategy, rank, costs, calls[r], planned);
      planned.parts = std::move(parts[r]);
      std::erase_if(planned.parts, [&](const PlannedPart& part) { return part.name == parallel::step_name(number); });
      if (averages_apart) plan.between[r] = planned;
    }
    if (!averages_apart) continue;
    strategy->average();
    for (size_t r = 0; r < ranks; ++r) {
      const auto rank = static_cast<int>(r);
      const parallel::RankCosts costs = strategy->take_costs(rank);
      keep_peaks(costs, plan.ranks[r]);
      if (step == kToldStep) take_work(*strategy, rank, costs, calls[r], plan.ranks[r]);
    }
  }
  if (strategy->defers_updates()) {
    // Memory that a step leaves for the next one counts as well.
    const auto log_of = [&](size_t r) { return strategy->device(static_cast<int>(r)).operator_log(); };
    plan.following.resize(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      log_of(r)->clear();
      calls[r].clear();
    }
    for (int64_t step = kSteps + 1; step <= 2 * kSteps; ++step) {
      batch.reset();
      batch = batches.next();
      strategy->train_step(batch, {.step = step, .epoch = batches.epoch(), .learning_rate = 1});
      strategy->wait_for_steps();
      for (size_t r = 0; r < ranks; ++r)
        plan.following[r].ends.push_back({.operators = log_of(r)->costs().size(), .calls = calls[r].size()});
    }
    strategy->take_scores(true);
    std::vector<std::vector<PlannedPart>> parts = take_parts(*strategy, ranks);
    for (size_t r = 0; r < ranks; ++r) {
      keep_peaks(strategy->take_costs(static_cast<int>(r)), plan.ranks[r]);
      plan.following[r].parts = std::move(parts[r]);
      plan.following[r].operators = log_of(r)->costs();
      plan.following[r].calls = calls[r];
    }
  }
  plan.store = strategy->store();
  plan.pipeline = strategy->take_pipeline_figures();
  return plan;
}

}  // namespace dptrain::plan
