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

void Ddp::train_step(const Batch& batch, const StepNumbers& numbers) {
  const double scale = 1.0 / static_cast<double>(batch.samples);
  // Equal on all ranks, so that they record and replay the same steps.
  StepRecorder::Signature signature = {batch.samples};
  for (const BatchPart& part : batch.parts) signature.push_back(part.samples());
  team().run(fmt::format("step {}", numbers.step), [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    const BatchPart& part = batch.parts[at];
    Replica& own = replica(rank);
    const InPhase computing(own.clock(), Phase::compute);
    const auto update = [&] {
      own.exchange().stamp(StepExchange::Point::reduced);
      own.update(numbers.learning_rate);
      own.exchange().stamp(StepExchange::Point::updated);
      own.exchange().publish();
    };
    own.begin_step(part, numbers);
    if (own.device().can_record()) {
      // Ranks meet between two recorded parts.
      own.run_part(0, signature, [&] { own.forward_backward(part, scale, {}); });
      team().communicator(rank).all_reduce(comm_buffer(own.model().gradients()));
      own.run_part(1, signature, update);
    } else {
      reduce_in_buckets(rank, part, scale);
      update();
    }
    end_step(rank);
  });
  for (int rank = 0; rank < ranks(); ++rank) count_samples(rank, batch.parts[static_cast<size_t>(rank)].samples());
}

void Ddp::reduce_in_buckets(int rank, const BatchPart& part, double scale) {
  Replica& own = replica(rank);
  GradientBuckets& buckets = *buckets_[static_cast<size_t>(rank)];
  buckets.begin_step();
  own.forward_backward(part, scale, [&](const Parameter& parameter) {
    const InPhase communicating(own.clock(), Phase::communication);
    buckets.gradient_ready(parameter);
  });
  const InPhase communicating(own.clock(), Phase::communication);
  buckets.finish();
}

void Ddp::share_weights(int rank) {
  // Every rank made the same updates; only the running statistics of the batch norms are each device's own.
  broadcast_from_first(rank, replica(rank).model().running_states());
}

}  // namespace dptrain::parallel
