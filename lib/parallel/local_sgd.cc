#include "parallel/local_sgd.h"

#include <utility>

namespace dptrain::parallel {
namespace {

/// Pieces of gradients that the memory of a few activations holds, and that are long for an update.
constexpr BucketOptions kGradients{.bucket_mb = 4, .first_bucket_mb = 4};

StrategyContext with_own_losses(StrategyContext context) {
  context.replica.gradient_factor = context.world_size();
  return context;
}

}  // namespace

LocalSgd::LocalSgd(const StrategyContext& context, const AveragingSteps& averaging, const OuterStep& outer)
    : ReplicatedStrategy(with_own_losses(context),
                         [](int) { return ReplicaPart{.duties = {.gradients_held_by = kGradients}}; }),
      averaging_(averaging),
      means_(static_cast<size_t>(ranks())),
      steps_(team(), context.replica.steps_in_flight) {
  for (int rank = 0; rank < ranks(); ++rank)
    means_[static_cast<size_t>(rank)] = std::make_unique<ReplicaMean>(replica(rank), team().communicator(rank), outer);
}

void LocalSgd::train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  count_samples(*batch);
  steps_.give(numbers, [this, batch = std::move(batch), numbers](int rank) { step_on(rank, *batch, numbers); });
}

void LocalSgd::step_on(int rank, const Batch& batch, const StepNumbers& numbers) {
  const StepParts parts = parts_of(batch, rank);
  Replica& own = replica(rank);
  const InPhase computing(own.clock(), Phase::compute);
  own.begin_step(parts, numbers, totals_of(batch));
  statistics(rank).begin_step(batch.samples);
  own.run_part(0, parts, [&](StepRecorder::How) {
    own.forward_backward(parts, {});
    own.exchange().stamp(StepExchange::Point::reduced);
    own.update();
    own.exchange().stamp(StepExchange::Point::updated);
  });
  statistics(rank).end_step(parts, batch.samples);
  mean(rank).fall_apart();
  if (averaging_.averages_after(numbers.step)) {
    const InPhase communicating(own.clock(), Phase::communication);
    if (numbers.step <= averaging_.warmup_steps)
      mean(rank).take();
    else
      mean(rank).take_outer_step();
  }
  own.run_part(1, parts, [&](StepRecorder::How) {
    own.exchange().stamp(StepExchange::Point::averaged);
    own.exchange().publish();
  });
  end_step(rank);
}

void LocalSgd::swap_average(int rank) {
  do_uncounted(rank, [&] { mean(rank).swap(); });
}

void LocalSgd::swap_all() {
  team().run("averaging the weights", [&](int rank) { swap_average(rank); });
}

std::vector<nn::NamedValues> LocalSgd::state_dict() {
  swap_all();
  auto tensors = ReplicatedStrategy::state_dict();
  swap_all();
  return tensors;
}

void LocalSgd::for_each_state(const std::function<void(const nn::NamedValues&)>& take) {
  swap_all();
  ReplicatedStrategy::for_each_state(take);
  swap_all();
}

TrainingState LocalSgd::training_state() {
  std::vector<nn::NamedValues> of_replicas;
  team().run("reading the training's state", [&](int rank) {
    do_uncounted(rank, [&] {
      auto gathered = mean(rank).gather_state();
      if (team().is_first(rank)) of_replicas = std::move(gathered);
    });
  });
  swap_all();
  TrainingState state = ReplicatedStrategy::training_state();
  swap_all();
  state.replicas = std::move(of_replicas);
  return state;
}

}  // namespace dptrain::parallel
