#include "parallel/data_parallel.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/reorder.h"

namespace dptrain::parallel {
namespace {

/// What a rank without samples, or without the whole, gives to a gather or scatter: no elements, in the type that the
/// other ranks send.
CommBuffer buffer_or_none(const Tensor& tensor, DType dtype) {
  return tensor.defined() ? comm_buffer(tensor) : CommBuffer{.dtype = dtype};
}

bool are_gpus(const std::vector<DeviceId>& devices) {
  return std::ranges::all_of(devices, [](const DeviceId& id) { return id.kind == DeviceKind::cuda; });
}

}  // namespace

DataParallel::DataParallel(const StrategyContext& context, const Options& options)
    : ReplicatedStrategy(context, [](int rank) { return rank == 0; }),
      options_(options),
      ranks_of_processes_({ranks()}),
      has_stepped_(static_cast<size_t>(ranks())),
      agreements_(team(), context.replica.input.text.has_value()),
      steps_(team(), context.replica.steps_in_flight) {
  for (int rank = 0; rank < ranks(); ++rank) {
    passes_.push_back(std::make_unique<PassRecorder>(replica(rank)));
    // A GPU may load a kernel for an exchange, which must not happen while another replica on it records.
    if (world_size() > 1 && !team().is_logged() && are_gpus(context.team.devices)) agreements_.join(rank, passes(rank));
  }
  std::vector<int> own(static_cast<size_t>(ranks()));
  std::iota(own.begin(), own.end(), 0);
  if (!team().spans_processes()) {
    for (const int rank : own) process_.push_back(&team().communicator(rank));
    return;
  }
  process_ = team().form_group(own);
  const RanksOfProcesses& world = *context.team.world;
  place_ = world.place();
  ranks_of_processes_.clear();
  for (int process = 0; process < world.shape.processes(); ++process)
    ranks_of_processes_.push_back(world.shape.ranks_of(process).size());
}

void DataParallel::replicate(int rank) {
  const nn::Model& model = replica(rank).model();
  for (const Tensor& tensor : {model.weights(), replica(rank).loss_scale_block(), model.running_states()})
    if (tensor.defined() && tensor.elements() > 0) process(rank).broadcast(comm_buffer(tensor), 0);
}

void DataParallel::share_weights(int rank) {
  replicate(rank);
  replica(rank).model().refresh_copies();
  // All processes make the same updates. Only the running statistics of the batch norms differ between processes.
  if (team().spans_processes()) broadcast_from_first(rank, replica(rank).model().running_states());
}

void DataParallel::sum_gradients(int rank) {
  if (leaves_last_sum_out()) return;
  const CommBuffer gradients = comm_buffer(replica(rank).model().gradients());
  if (!team().spans_processes()) return team().communicator(rank).reduce(gradients, 0);
  Communicator& world = team().communicator(rank);
  world.begin_recordable(!std::exchange(has_stepped_[static_cast<size_t>(rank)], true));
  world.all_reduce(gradients);
  world.end_recordable();
}

std::vector<Device*> DataParallel::batch_devices() {
  if (replica(0).has_shards()) return part_devices();
  return {&team().device(0)};
}

BatchSplit DataParallel::batch_split() {
  if (replica(0).has_shards()) return ReplicatedStrategy::batch_split();
  // A process gets one part of the batch, which its ranks share.
  std::vector<int64_t> weights;
  auto rank = split().weights().begin();
  for (const int of_process : ranks_of_processes_) {
    weights.push_back(std::accumulate(rank, rank + of_process, int64_t{0}));
    rank += of_process;
  }
  return BatchSplit(weights);
}

int DataParallel::first_part() { return replica(0).has_shards() ? ReplicatedStrategy::first_part() : place_; }

void DataParallel::train_shards(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  make_step(steps_, std::move(batch), numbers, [this](const RankStep& step) {
    agreements_.begin_step(step.rank, step.batch);
    passes(step.rank).make_step(step.parts, [&](PassRecorder::Mode) {
      communicate(step.rank, [&] { replicate(step.rank); });
      passes(step.rank).run_without_results([&] {
        step.replica.model().refresh_copies();
        step.replica.forward_backward(step.parts, {});
      });
      reduce_and_update(step.rank);
    });
  });
}

void DataParallel::train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  if (replica(0).has_shards()) return train_shards(std::move(batch), numbers);
  const auto step = std::make_shared<ScatteredBatch>(std::move(batch), split(), first_rank(), ranks());
  for (int rank = 0; rank < ranks(); ++rank)
    for (const BatchPart* share : step->shares_of(rank)) count_samples(rank, share->samples());
  steps_.give(numbers, [this, step, numbers](int rank) { step_on(rank, *step, numbers); });
}

void DataParallel::step_on(int rank, const ScatteredBatch& step, const StepNumbers& numbers) {
  const Batch& batch = *step.batch;
  Replica& own = replica(rank);
  const InPhase computing(own.clock(), Phase::compute);
  const StepParts shares = step.shares_of(rank);
  const ScatteredParts parts = scattered_parts(
      own.reader(), step, {.rank = rank, .decodes = rank == 0, .computes_losses = computes_all_losses(rank)});
  KeptResults kept;
  if (options_.criterion == Criterion::parallel)
    kept = KeptResults::of(shares);
  else if (computes_all_losses(rank))
    kept = KeptResults::of(step.all_shares());
  own.begin_step(parts.parts, numbers, totals_of(batch), kept);
  statistics(rank).note_size(batch.samples);
  own.exchange().stamp(StepExchange::Point::begun);
  agreements_.begin_step(rank, batch);
  passes(rank).make_step(parts.parts, [&](PassRecorder::Mode) { give_step(rank, step, parts); });
  statistics(rank).end_step(shares, batch.samples);
  end_step(rank);
}

void DataParallel::give_step(int rank, const ScatteredBatch& step, const ScatteredParts& parts) {
  Replica& own = replica(rank);
  communicate(rank, [&] { replicate(rank); });
  passes(rank).run_without_results([&] {
    own.model().refresh_copies();
    own.model().forget_gradients();
  });
  for (size_t m = 0; m < step.micro_batches.size(); ++m) {
    const ScatteredBatch::MicroBatch& micro = step.micro_batches[m];
    SharePasses of_rank{.rank = rank,
                        .micro = micro,
                        .at = parts.micro_batches[m],
                        .are_last = m + 1 == step.micro_batches.size(),
                        .compute = micro.shares[static_cast<size_t>(rank)].samples() > 0 || own.shares_statistics(),
                        .tape = Tape(own.recording())};
    add_gradients(of_rank);
  }
  reduce_and_update(rank);
}

void DataParallel::reduce_and_update(int rank) {
  communicate(rank, [&] { sum_gradients(rank); });
  passes(rank).run_without_results([&] {
    replica(rank).update_and_publish([&] {
      if (rank == 0) replica(rank).update();
    });
  });
}

void DataParallel::communicate(int rank, const std::function<void()>& transfer) {
  if (passes(rank).mode() == PassRecorder::Mode::rehearsed) return;
  const InPhase communicating(replica(rank).clock(), Phase::communication);
  transfer();
}

void DataParallel::add_gradients(SharePasses& own) {
  const Tensor images = receive_images(own);
  if (options_.criterion == Criterion::parallel) {
    return passes(own.rank).run_without_results([&] {
      const std::vector<Tensor> targets = forward(own, images);
      backward(own, replica(own.rank).losses_of(own.outputs, targets, own.at.rows));
    });
  }
  std::vector<Tensor> gradients = scatter_gradients(own, gather_outputs(own, images));
  passes(own.rank).run_without_results([&] {
    std::vector<Tape::Root> roots;
    for (size_t k = 0; k < own.outputs.size(); ++k)
      roots.push_back({.output = own.outputs[k], .gradient = std::move(gradients[k])});
    backward(own, std::move(roots));
  });
}

Tensor DataParallel::receive_images(SharePasses& own) {
  const BatchPart& whole = *own.micro.whole;
  // Text is a few numbers, so every device gets its own directly from the host.
  if (whole.dataset == nullptr) return {};
  Replica& replica = this->replica(own.rank);
  const std::vector<Tensor> tensors = passes(own.rank).run([&] {
    // A CPU worker has the images already; a GPU decodes them. The plain layout lets devices of all kinds exchange
    // them.
    Tensor images;
    if (own.rank == 0)
      images =
          ops::converted(whole.images.defined() ? whole.images : replica.reader().samples_of(whole, own.at.whole).x,
                         {.dtype = replica.dtype()});
    const Shape& image = whole.dataset->image_shape();
    const Tensor share = Tensor::empty(replica.device(), {own.share().samples(), image[0], image[1], image[2]},
                                       {.dtype = replica.dtype()});
    return std::vector<Tensor>{images, share};
  });
  communicate(own.rank, [&] {
    process(own.rank).scatter(buffer_or_none(tensors[0], replica.dtype()), comm_buffer(tensors[1]), 0);
  });
  return tensors[1];
}

std::vector<Tensor> DataParallel::forward(SharePasses& own, const Tensor& images) {
  if (!own.compute) return {};
  Replica& replica = this->replica(own.rank);
  const InSpan span(replica.device().timeline(), "forward");
  ModelSamples samples;
  if (!images.defined()) {
    if (own.share().samples() > 0) samples = replica.reader().samples_of(own.share(), own.at.share);
  } else {
    const int64_t first = own.at.share.sample;
    samples.x = images;
    samples.ids = replica.exchange().sample_ids().samples(first, first + own.share().samples());
    samples.targets = replica.reader().labels_of(own.share(), own.at.share);
  }
  own.outputs = replica.forward(own.tape, samples);
  return samples.targets;
}

void DataParallel::backward(SharePasses& own, std::vector<Tape::Root> roots) {
  Replica& replica = this->replica(own.rank);
  if (own.compute) {
    const InSpan span(replica.device().timeline(), "backward");
    own.tape.backward(std::move(roots));
  }
  replica.complete_gradients();
  if (own.are_last) replica.exchange().stamp(StepExchange::Point::computed);
}

std::vector<Tensor> DataParallel::gather_outputs(SharePasses& own, const Tensor& images) {
  Replica& replica = this->replica(own.rank);
  const DType dtype = replica.dtype();
  const size_t outputs = own.output_count();
  std::vector<Tensor> tensors = passes(own.rank).run([&] {
    forward(own, images);
    std::vector<Tensor> own_and_all(2 * outputs);
    for (size_t k = 0; k < own.outputs.size(); ++k) own_and_all[k] = own.outputs[k].value();
    for (size_t k = 0; computes_all_losses(own.rank) && k < outputs; ++k) {
      const auto rows = static_cast<int64_t>(own.micro.labels.targets[k].size());
      own_and_all[outputs + k] = Tensor::empty(replica.device(), {rows, replica.output_widths()[k]}, {.dtype = dtype});
    }
    return own_and_all;
  });
  for (size_t k = 0; k < outputs; ++k)
    communicate(own.rank, [&] {
      process(own.rank).gather(buffer_or_none(tensors[k], dtype), buffer_or_none(tensors[outputs + k], dtype),
                               options_.output_rank);
    });
  tensors.erase(tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(outputs));
  return tensors;
}

std::vector<Tensor> DataParallel::scatter_gradients(SharePasses& own, std::vector<Tensor> gathered) {
  Replica& replica = this->replica(own.rank);
  const DType dtype = replica.dtype();
  const size_t outputs = own.output_count();
  std::vector<Tensor> tensors = passes(own.rank).run([&] {
    std::vector<Tensor> all_and_own(outputs);
    if (computes_all_losses(own.rank)) all_and_own = gradients_of(own, gathered);
    gathered.clear();
    for (size_t k = 0; k < outputs; ++k) {
      const auto rows = static_cast<int64_t>(own.share().targets[k].size());
      all_and_own.push_back(Tensor::empty(replica.device(), {rows, replica.output_widths()[k]}, {.dtype = dtype}));
    }
    return all_and_own;
  });
  for (size_t k = 0; k < outputs; ++k)
    communicate(own.rank, [&] {
      process(own.rank).scatter(buffer_or_none(tensors[k], dtype), comm_buffer(tensors[outputs + k]),
                                options_.output_rank);
    });
  tensors.erase(tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(outputs));
  return tensors;
}

std::vector<Tensor> DataParallel::gradients_of(SharePasses& own, const std::vector<Tensor>& gathered) {
  Replica& replica = this->replica(own.rank);
  Tape tape(Tape::Mode::record);
  std::vector<Variable> outputs;
  for (const Tensor& of_all : gathered) outputs.push_back(tape.input(of_all, true));
  tape.backward(replica.losses_of(outputs, replica.reader().labels_of(own.micro.labels, own.at.labels), own.at.rows));
  std::vector<Tensor> gradients;
  for (const Variable& output : outputs) gradients.push_back(output.gradient());
  return gradients;
}

}  // namespace dptrain::parallel
