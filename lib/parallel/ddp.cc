#include "parallel/ddp.h"

#include <fmt/format.h>

namespace dptrain::parallel {

Ddp::Ddp(const StrategyContext& context, const BucketOptions& buckets)
    : ReplicatedStrategy(context, [](int) { return true; }) {
  for (int rank = 0; rank < ranks(); ++rank)
    buckets_.push_back(std::make_unique<GradientBuckets>(replica(rank).model(), team().communicator(rank), buckets));
}

std::vector<Device*> Ddp::batch_devices() {
  std::vector<Device*> devices;
  for (int rank = 0; rank < ranks(); ++rank) devices.push_back(&team().device(rank));
  return devices;
}

Score Ddp::train_step(const Batch& batch, const StepNumbers& numbers) {
  std::vector<SampleResults> results(static_cast<size_t>(ranks()));
  const double scale = 1.0 / static_cast<double>(batch.samples);
  team().run(fmt::format("step {}", numbers.step), [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    Replica& own = replica(rank);
    GradientBuckets& buckets = *buckets_[at];
    const InPhase computing(own.clock(), Phase::compute);
    buckets.begin_step();
    const auto ready = [&](const Parameter& parameter) {
      const InPhase communicating(own.clock(), Phase::communication);
      buckets.gradient_ready(parameter);
    };
    results[at] = own.forward_backward(batch.parts[at], scale, static_cast<uint32_t>(numbers.epoch), ready);
    {
      const InPhase communicating(own.clock(), Phase::communication);
      buckets.finish();
    }
    update(rank, numbers.learning_rate);
  });
  for (int rank = 0; rank < ranks(); ++rank) count_samples(rank, batch.parts[static_cast<size_t>(rank)].samples());
  return total(results);
}

void Ddp::share_weights(int rank) {
  // Every rank made the same updates; only the running statistics of the batch norms are each device's own.
  broadcast_from_first(rank, replica(rank).model().running_states());
}

}  // namespace dptrain::parallel
