#include "parallel/data_parallel.h"

#include <fmt/format.h>

#include "autograd/cross_entropy.h"
#include "ops/reorder.h"

namespace dptrain::parallel {
namespace {

CommBuffer nothing() { return {}; }

}  // namespace

DataParallel::DataParallel(const StrategyContext& context, int output_rank)
    : ReplicatedStrategy(context, [](int rank) { return rank == 0; }), output_rank_(output_rank) {}

void DataParallel::share_weights(int rank) {
  const nn::Model& model = replica(rank).model();
  broadcast_from_first(rank, model.weights());
  replica(rank).model().refresh_copies();
  broadcast_from_first(rank, model.running_states());
}

SampleResults DataParallel::loss_of(const Tensor& logits, std::span<const int32_t> labels, double scale,
                                    Tensor& gradient) {
  const Tensor targets = labels_tensor(logits.device(), labels);
  Tape tape(Tape::Mode::record);
  const Variable gathered = tape.input(logits, true);
  const Variable losses = autograd::cross_entropy(gathered, targets, scale);
  tape.backward(losses, losses.value());
  gradient = gathered.gradient();
  return results_of(losses.value(), logits, targets);
}

Score DataParallel::train_step(const Batch& batch, const StepNumbers& numbers) {
  const BatchPart& whole = batch.parts[0];
  std::vector<SampleResults> results(1);
  team().run(fmt::format("step {}", numbers.step), [&](int rank) {
    Replica& own = replica(rank);
    Communicator& communicator = team().communicator(rank);
    Device& device = own.device();
    const InPhase computing(own.clock(), Phase::compute);
    const auto communicate = [&](const auto& transfer) {
      const InPhase communicating(own.clock(), Phase::communication);
      transfer();
    };

    communicate([&] { share_weights(rank); });
    const int64_t begin = rank * batch.samples / ranks(), end = (rank + 1) * batch.samples / ranks();
    // Plain, so that devices of all kinds can exchange them.
    const Tensor images = rank == 0 ? ops::reorder(own.samples_of(whole).images, Layout::plain) : Tensor();
    const Shape& image = whole.dataset->image_shape();
    const Tensor part = Tensor::empty(device, {end - begin, image[0], image[1], image[2]}, {.dtype = own.dtype()});
    communicate([&] { communicator.scatter(rank == 0 ? comm_buffer(images) : nothing(), comm_buffer(part), 0); });

    Tape tape(Tape::Mode::record);
    const std::span<const int64_t> ids(whole.sample_ids);
    Variable logits;
    if (end > begin) {
      logits = own.forward(tape, part, ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                           static_cast<uint32_t>(numbers.epoch));
    }
    const int64_t classes = own.classes();
    const bool output = rank == output_rank_;
    Tensor gathered, gathered_gradient;
    if (output) gathered = Tensor::empty(device, {batch.samples, classes}, {.dtype = own.dtype()});
    communicate([&] {
      communicator.gather(logits.defined() ? comm_buffer(logits.value()) : nothing(),
                          output ? comm_buffer(gathered) : nothing(), output_rank_);
    });
    if (output)
      results[0] = loss_of(gathered, whole.labels, 1.0 / static_cast<double>(batch.samples), gathered_gradient);
    const Tensor gradient = Tensor::empty(device, {end - begin, classes}, {.dtype = own.dtype()});
    communicate([&] {
      communicator.scatter(output ? comm_buffer(gathered_gradient) : nothing(), comm_buffer(gradient), output_rank_);
    });
    gathered = gathered_gradient = Tensor();

    own.model().forget_gradients();
    if (end > begin)
      tape.backward(logits, gradient);
    else
      own.model().gradients().fill_zero();
    communicate([&] { communicator.reduce(comm_buffer(own.model().gradients()), 0); });
    if (rank == 0) update(rank, numbers.learning_rate);
  });
  for (int rank = 0; rank < ranks(); ++rank)
    count_samples(rank, (rank + 1) * batch.samples / ranks() - rank * batch.samples / ranks());
  return total(results);
}

}  // namespace dptrain::parallel
