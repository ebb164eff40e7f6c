#include "parallel/data_parallel.h"

#include <fmt/format.h>

#include "autograd/cross_entropy.h"
#include "ops/cross_entropy.h"
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
  if (const Tensor scale = replica(rank).loss_scale_block(); scale.defined()) broadcast_from_first(rank, scale);
  broadcast_from_first(rank, model.running_states());
}

Tensor DataParallel::loss_of(const Tensor& logits, const Tensor& labels, double scale) {
  Tape tape(Tape::Mode::record);
  const Variable gathered = tape.input(logits, true);
  const Variable losses = autograd::cross_entropy(gathered, labels, scale, replica(output_rank_).loss_factor());
  replica(output_rank_).exchange().keep(losses.value(), ops::correct_samples(logits, labels));
  tape.backward(losses, losses.value());
  return gathered.gradient();
}

void DataParallel::train_step(const Batch& batch, const StepNumbers& numbers) {
  const BatchPart& whole = batch.parts[0];
  team().run(fmt::format("step {}", numbers.step), [&](int rank) {
    Replica& own = replica(rank);
    StepExchange& exchange = own.exchange();
    Communicator& communicator = team().communicator(rank);
    Device& device = own.device();
    const InPhase computing(own.clock(), Phase::compute);
    const auto communicate = [&](const auto& transfer) {
      const InPhase communicating(own.clock(), Phase::communication);
      transfer();
    };

    own.begin_step(whole, numbers, rank == output_rank_);
    exchange.stamp(StepExchange::Point::begun);
    communicate([&] { share_weights(rank); });
    const int64_t begin = rank * batch.samples / ranks(), end = (rank + 1) * batch.samples / ranks();
    // Plain, so that devices of all kinds can exchange them.
    const Tensor images = rank == 0 ? ops::reorder(own.samples_of(whole).images, Layout::plain) : Tensor();
    const Shape& image = whole.dataset->image_shape();
    const Tensor part = Tensor::empty(device, {end - begin, image[0], image[1], image[2]}, {.dtype = own.dtype()});
    communicate([&] { communicator.scatter(rank == 0 ? comm_buffer(images) : nothing(), comm_buffer(part), 0); });

    Tape tape(Tape::Mode::record);
    Variable logits;
    if (end > begin) logits = own.forward(tape, part, exchange.sample_ids().samples(begin, end));
    const int64_t classes = own.classes();
    const bool output = rank == output_rank_;
    Tensor gathered, gathered_gradient;
    if (output) gathered = Tensor::empty(device, {batch.samples, classes}, {.dtype = own.dtype()});
    communicate([&] {
      communicator.gather(logits.defined() ? comm_buffer(logits.value()) : nothing(),
                          output ? comm_buffer(gathered) : nothing(), output_rank_);
    });
    if (output) {
      const Tensor labels = labels_tensor(device, whole.labels);
      gathered_gradient = loss_of(gathered, labels, 1.0 / static_cast<double>(batch.samples));
    }
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
    exchange.stamp(StepExchange::Point::computed);
    communicate([&] { communicator.reduce(comm_buffer(own.model().gradients()), 0); });
    exchange.stamp(StepExchange::Point::reduced);
    if (rank == 0) own.update(numbers.learning_rate);
    exchange.stamp(StepExchange::Point::updated);
    exchange.publish();
    end_step(rank);
  });
  for (int rank = 0; rank < ranks(); ++rank)
    count_samples(rank, (rank + 1) * batch.samples / ranks() - rank * batch.samples / ranks());
}

}  // namespace dptrain::parallel
