#include "parallel/local_sgd.h"

#include <utility>

#include "base/check.h"

namespace dptrain::parallel {
namespace {

/// Buckets that fit in the memory of a few activations, and are still long enough for an efficient update.
constexpr BucketOptions kGradients{.bucket_mb = 4, .first_bucket_mb = 4};

ReplicaDuties duties_of(const StrategyContext& context, const LocalSgd::Options& options) {
  ReplicaDuties duties;
  // Compressed averagings need the memory of all gradients in one piece.
  const bool compresses = options.compress.method != CompressionOptions::Method::none && context.world_size() > 1;
  if (!compresses) duties.gradients_held_by = kGradients;
  return duties;
}

}  // namespace

LocalSgd::LocalSgd(const StrategyContext& context, const Options& options)
    : ReplicatedStrategy(context, [&](int) { return ReplicaAssignment{.duties = duties_of(context, options)}; }),
      averaging_(options.averaging),
      means_(static_cast<size_t>(ranks())),
      steps_(team(), context.replica.steps_in_flight) {
  DPTRAIN_CHECK(context.batch_norm == BatchNormMode::local && context.shards == 0 && !context.replica.average_decay &&
                    context.replica.precision != Precision::fp16,
                "replicas that train by themselves have something in common in every step");
  ReplicaMean::Options of_mean{.combination = options.combination,
                               .outer = options.outer,
                               .averages_state = options.averages_state,
                               .compress = options.compress,
                               .seed = context.replica.initialization.seed};
  for (int rank = 0; rank < world_size(); ++rank) {
    of_mean.has_gpus |= team().kind(rank) == DeviceKind::cuda;
    of_mean.unlike_ranks |= team().kind(rank) != team().kind(0);
  }
  team().run("start", [&](int rank) {
    means_[static_cast<size_t>(rank)] =
        std::make_unique<ReplicaMean>(replica(rank), team().communicator(rank), of_mean);
  });
}

void LocalSgd::train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  make_step(steps_, std::move(batch), numbers, [this](const RankStep& step) { give_step(step); });
}

StepTotals LocalSgd::totals_on(const RankStep& step) const {
  StepTotals totals = ReplicatedStrategy::totals_on(step);
  const int64_t all = step.batch.samples, own = step.samples();
  if (own > 0) totals.gradient_factor = static_cast<double>(all) / static_cast<double>(own);
  return totals;
}

void LocalSgd::give_step(const RankStep& step) {
  const auto& [rank, own, batch, parts, number] = step;
  const int64_t samples = step.samples();
  const auto give = [&](StepRecorder::How) {
    own.forward_backward(parts, {});
    own.exchange().stamp(StepExchange::Point::reduced);
    // A rank may have no samples, as in the last batch of an epoch. It then has nothing to learn from.
    if (samples > 0)
      own.update();
    else
      own.model().forget_gradients();
    own.exchange().stamp(StepExchange::Point::updated);
  };
  own.run_section(StepRecorder::Section::passes, parts, give);
  mean(rank).count_step(samples, batch.samples);
  if (averaging_.averages_after(number)) average_on(rank, number > averaging_.warmup_steps);
  own.run_section(StepRecorder::Section::end, parts, [&](StepRecorder::How) {
    own.exchange().stamp(StepExchange::Point::averaged);
    own.exchange().publish();
  });
}

void LocalSgd::average_on(int rank, bool with_outer_step) {
  const InPhase communicating(replica(rank).clock(), Phase::communication);
  if (with_outer_step)
    mean(rank).take_outer_step();
  else
    mean(rank).take();
}

void LocalSgd::average() {
  team().run("averaging the weights", [&](int rank) { average_on(rank, true); });
}

void LocalSgd::swap_average(int rank) {
  do_uncounted(rank, [&] { mean(rank).swap(ReplicaMean::Shown::evaluated); });
}

void LocalSgd::swap_all(ReplicaMean::Shown shown) {
  team().run("averaging the weights", [&](int rank) { do_uncounted(rank, [&] { mean(rank).swap(shown); }); });
}

std::vector<nn::NamedValues> LocalSgd::state_dict() {
  swap_all(ReplicaMean::Shown::evaluated);
  auto tensors = ReplicatedStrategy::state_dict();
  swap_all(ReplicaMean::Shown::evaluated);
  return tensors;
}

void LocalSgd::for_each_state(const std::function<void(const nn::NamedValues&)>& take) {
  swap_all(ReplicaMean::Shown::evaluated);
  ReplicatedStrategy::for_each_state(take);
  swap_all(ReplicaMean::Shown::evaluated);
}

TrainingState LocalSgd::training_state() {
  swap_all(ReplicaMean::Shown::all);
  TrainingState state = ReplicatedStrategy::training_state();
  swap_all(ReplicaMean::Shown::all);
  team().run("reading the training state", [&](int rank) {
    make_room(rank);
    do_uncounted(rank, [&] {
      auto gathered = mean(rank).gather_state();
      if (team().is_first(rank)) state.replicas = std::move(gathered);
    });
  });
  return state;
}

}  // namespace dptrain::parallel
