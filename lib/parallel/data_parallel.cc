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

Tensor DataParallel::loss_of(const Tensor& logits, const Tensor& labels, int64_t first, double scale) {
  Tape tape(Tape::Mode::record);
  const Variable gathered = tape.input(logits, true);
  const Variable losses =
      autograd::cross_entropy(gathered, labels, {.scale = scale, .factor = replica(output_rank_).loss_factor()});
  replica(output_rank_).exchange().keep(first, losses.value(), ops::correct_samples(logits, labels));
  tape.backward(losses, losses.value());
  return gathered.gradient();
}

void DataParallel::train_step(const Batch& batch, const StepNumbers& numbers) {
  const double scale = 1.0 / static_cast<double>(batch.samples);
  team().run(fmt::format("step {}", numbers.step), [&](int rank) {
    Replica& own = replica(rank);
    StepExchange& exchange = own.exchange();
    const InPhase computing(own.clock(), Phase::compute);
    own.begin_step(parts_of(batch, 0), numbers, rank == output_rank_);
    exchange.stamp(StepExchange::Point::begun);
    communicate(rank, [&] { share_weights(rank); });
    own.model().forget_gradients();
    int64_t first = 0;
    for (const MicroBatch& micro : batch.micro_batches) {
      add_gradients(rank, micro.parts[0], first, scale);
      first += micro.samples;
    }
    exchange.stamp(StepExchange::Point::computed);
    communicate(rank, [&] { team().communicator(rank).reduce(comm_buffer(own.model().gradients()), 0); });
    exchange.stamp(StepExchange::Point::reduced);
    if (rank == 0) own.update();
    exchange.stamp(StepExchange::Point::updated);
    exchange.publish();
    end_step(rank);
  });
  for (int rank = 0; rank < ranks(); ++rank)
    for (const MicroBatch& micro : batch.micro_batches) {
      const auto [begin, end] = share_of(rank, micro.samples);
      count_samples(rank, end - begin);
    }
}

std::pair<int64_t, int64_t> DataParallel::share_of(int rank, int64_t samples) {
  return {rank * samples / ranks(), (rank + 1) * samples / ranks()};
}

void DataParallel::communicate(int rank, const std::function<void()>& transfer) {
  const InPhase communicating(replica(rank).clock(), Phase::communication);
  transfer();
}

void DataParallel::add_gradients(int rank, const BatchPart& whole, int64_t first, double scale) {
  Replica& own = replica(rank);
  Communicator& communicator = team().communicator(rank);
  Device& device = own.device();
  const auto [begin, end] = share_of(rank, whole.samples());
  // Plain, so that devices of all kinds can exchange them.
  const Tensor images = rank == 0 ? ops::reorder(own.samples_of(whole, first).images, Layout::plain) : Tensor();
  const Shape& image = whole.dataset->image_shape();
  const Tensor part = Tensor::empty(device, {end - begin, image[0], image[1], image[2]}, {.dtype = own.dtype()});
  communicate(rank, [&] { communicator.scatter(rank == 0 ? comm_buffer(images) : nothing(), comm_buffer(part), 0); });

  Tape tape(Tape::Mode::record);
  Variable logits;
  if (end > begin) logits = own.forward(tape, part, own.exchange().sample_ids().samples(first + begin, first + end));
  const int64_t classes = own.classes();
  const bool output = rank == output_rank_;
  Tensor gathered, gathered_gradient;
  if (output) gathered = Tensor::empty(device, {whole.samples(), classes}, {.dtype = own.dtype()});
  communicate(rank, [&] {
    communicator.gather(logits.defined() ? comm_buffer(logits.value()) : nothing(),
                        output ? comm_buffer(gathered) : nothing(), output_rank_);
  });
  if (output) gathered_gradient = loss_of(gathered, labels_tensor(device, whole.labels), first, scale);
  const Tensor gradient = Tensor::empty(device, {end - begin, classes}, {.dtype = own.dtype()});
  communicate(rank, [&] {
    communicator.scatter(output ? comm_buffer(gathered_gradient) : nothing(), comm_buffer(gradient), output_rank_);
  });
  gathered = gathered_gradient = Tensor();

  if (end > begin)
    tape.backward(logits, gradient);
  else
    own.complete_gradients({});
}

}  // namespace dptrain::parallel
