#include "parallel/data_parallel.h"

#include <numeric>
#include <utility>

#include "ops/reorder.h"

namespace dptrain::parallel {
namespace {

/// The buffer of a rank without samples: no elements, in the type that the other ranks send.
CommBuffer nothing(DType dtype) { return {.dtype = dtype}; }

}  // namespace

DataParallel::DataParallel(const StrategyContext& context, const Options& options)
    : ReplicatedStrategy(context, [](int rank) { return rank == 0; }),
      options_(options),
      ranks_of_processes_({ranks()}),
      steps_(team(), context.replica.steps_in_flight) {
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
  nn::Model& model = replica(rank).model();
  const auto from_first = [&](const Tensor& tensor) {
    if (tensor.elements() > 0) process(rank).broadcast(comm_buffer(tensor), 0);
  };
  from_first(model.weights());
  model.refresh_copies();
  if (const Tensor scale = replica(rank).loss_scale_block(); scale.defined()) from_first(scale);
  from_first(model.running_states());
}

void DataParallel::share_weights(int rank) {
  replicate(rank);
  // All processes make the same updates. Only the running statistics of the batch norms differ between processes.
  if (team().spans_processes()) broadcast_from_first(rank, replica(rank).model().running_states());
}

void DataParallel::sum_gradients(int rank) {
  if (leaves_last_sum_out()) return;
  const CommBuffer gradients = comm_buffer(replica(rank).model().gradients());
  if (team().spans_processes())
    team().communicator(rank).all_reduce(gradients);
  else
    team().communicator(rank).reduce(gradients, 0);
}

std::vector<BatchPart> DataParallel::shares_of(const MicroBatch& micro) {
  std::vector<BatchPart> shares;
  const int64_t first = split().range(first_rank(), micro.samples).first;
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto [begin, end] = split().range(first_rank() + rank, micro.samples);
    shares.push_back(parallel::share_of(micro.parts[0], begin - first, end - first));
  }
  return shares;
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
    communicate(step.rank, [&] { replicate(step.rank); });
    step.replica.forward_backward(step.parts, {});
    reduce_and_update(step.rank);
  });
}

void DataParallel::reduce_and_update(int rank) {
  Replica& own = replica(rank);
  communicate(rank, [&] { sum_gradients(rank); });
  own.update_and_publish([&] {
    if (rank == 0) own.update();
  });
}

void DataParallel::train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  if (replica(0).has_shards()) return train_shards(std::move(batch), numbers);
  const auto step = std::make_shared<Shared>(Shared{.batch = std::move(batch)});
  for (const MicroBatch& micro : step->batch->micro_batches) {
    step->shares.push_back(shares_of(micro));
    const auto& shares = step->shares.back();
    for (int rank = 0; rank < ranks(); ++rank) count_samples(rank, shares[static_cast<size_t>(rank)].samples());
  }
  for (const auto& of_micro : step->shares)
    for (const BatchPart& share : of_micro) step->all.push_back(&share);
  steps_.give(numbers, [this, step, numbers](int rank) { step_on(rank, *step, numbers); });
}

void DataParallel::step_on(int rank, const Shared& step, const StepNumbers& numbers) {
  const Batch& batch = *step.batch;
  Replica& own = replica(rank);
  StepExchange& exchange = own.exchange();
  const InPhase computing(own.clock(), Phase::compute);
  StepParts parts;
  for (const auto& of_micro : step.shares) parts.push_back(&of_micro[static_cast<size_t>(rank)]);
  if (options_.criterion == Criterion::parallel)
    own.begin_step(parts, numbers, totals_of(batch));
  else
    own.begin_step(parts, numbers, totals_of(batch),
                   rank == options_.output_rank ? KeptResults::of(step.all) : KeptResults());
  statistics(rank).note_size(batch.samples);
  exchange.stamp(StepExchange::Point::begun);
  communicate(rank, [&] { replicate(rank); });
  own.model().forget_gradients();
  Places places;
  places.own.rows.resize(batch.counts.size());
  places.all_rows.resize(batch.counts.size());
  for (size_t m = 0; m < step.shares.size(); ++m) {
    add_gradients(rank, batch.micro_batches[m].parts[0], step.shares[m], places);
    own.reader().go_past(places.own, *parts[m]);
    for (const BatchPart& share : step.shares[m])
      for (size_t k = 0; k < share.targets.size(); ++k)
        places.all_rows[k] += static_cast<int64_t>(share.targets[k].size());
  }
  exchange.stamp(StepExchange::Point::computed);
  reduce_and_update(rank);
  statistics(rank).end_step(parts, batch.samples);
  end_step(rank);
}

void DataParallel::communicate(int rank, const std::function<void()>& transfer) {
  const InPhase communicating(replica(rank).clock(), Phase::communication);
  transfer();
}

ModelSamples DataParallel::scattered(int rank, const BatchPart& whole, const BatchPart& share, const PartPlace& place) {
  Replica& own = replica(rank);
  // Text is a few numbers, so every device gets its own directly from the host.
  if (whole.dataset == nullptr) return share.samples() > 0 ? own.reader().samples_of(share, place) : ModelSamples();
  // A CPU worker has the images already; a GPU decodes its own. The plain layout lets devices of all kinds exchange
  // them.
  Tensor images;
  if (rank == 0)
    images =
        ops::converted(whole.images.defined() ? whole.images : own.reader().uploaded(whole).x, {.dtype = own.dtype()});
  const Shape& image = whole.dataset->image_shape();
  const Tensor part =
      Tensor::empty(own.device(), {share.samples(), image[0], image[1], image[2]}, {.dtype = own.dtype()});
  communicate(rank, [&] {
    process(rank).scatter(rank == 0 ? comm_buffer(images) : nothing(part.dtype()), comm_buffer(part), 0);
  });
  return {.x = part,
          .text = {},
          .targets = {},
          .ids = own.exchange().sample_ids().samples(place.sample, place.sample + share.samples())};
}

std::vector<Tensor> DataParallel::gradients_of(const std::vector<Tensor>& outputs, const std::vector<BatchPart>& shares,
                                               const std::vector<int64_t>& all_rows) {
  Replica& own = replica(options_.output_rank);
  Tape tape(Tape::Mode::record);
  std::vector<Variable> gathered;
  std::vector<Tensor> targets, gradients;
  for (size_t k = 0; k < outputs.size(); ++k) {
    gathered.push_back(tape.input(outputs[k], true));
    std::vector<int32_t> labels;
    for (const BatchPart& share : shares) labels.insert(labels.end(), share.targets[k].begin(), share.targets[k].end());
    targets.push_back(uploaded_values(own.device(), DType::i32, labels));
  }
  tape.backward(own.losses_of(gathered, targets, all_rows));
  for (const Variable& output : gathered) gradients.push_back(output.gradient());
  return gradients;
}

void DataParallel::add_gradients(int rank, const BatchPart& whole, const std::vector<BatchPart>& shares,
                                 const Places& places) {
  Replica& own = replica(rank);
  const BatchPart& share = shares[static_cast<size_t>(rank)];
  const bool parallel = options_.criterion == Criterion::parallel;
  const bool computes = share.samples() > 0 || own.shares_statistics();
  ModelSamples samples = scattered(rank, whole, share, places.own);
  if (parallel && whole.dataset != nullptr && computes)
    samples.targets = {uploaded_values(own.device(), DType::i32, share.targets[0])};

  Tape tape(own.recording());
  std::vector<Variable> outputs;
  if (computes) {
    const InSpan span(own.device().timeline(), "forward");
    outputs = own.forward(tape, samples);
  }
  std::vector<Tape::Root> roots = parallel ? own.losses_of(outputs, samples.targets, places.own.rows)
                                           : roots_of_gathered(rank, outputs, shares, places);
  if (computes) {
    const InSpan span(own.device().timeline(), "backward");
    tape.backward(std::move(roots));
  }
  own.complete_gradients();
}

std::vector<Tape::Root> DataParallel::roots_of_gathered(int rank, const std::vector<Variable>& outputs,
                                                        const std::vector<BatchPart>& shares, const Places& places) {
  Replica& own = replica(rank);
  Communicator& communicator = process(rank);
  const BatchPart& share = shares[static_cast<size_t>(rank)];
  const bool output = rank == options_.output_rank;
  std::vector<Tensor> gathered, gathered_gradients;
  for (size_t k = 0; k < share.targets.size(); ++k) {
    int64_t rows = 0;
    for (const BatchPart& one : shares) rows += static_cast<int64_t>(one.targets[k].size());
    if (output) gathered.push_back(Tensor::empty(own.device(), {rows, own.output_widths()[k]}, {.dtype = own.dtype()}));
    communicate(rank, [&] {
      communicator.gather(outputs.empty() ? nothing(own.dtype()) : comm_buffer(outputs[k].value()),
                          output ? comm_buffer(gathered[k]) : nothing(own.dtype()), options_.output_rank);
    });
  }
  if (output) gathered_gradients = gradients_of(gathered, shares, places.all_rows);
  gathered.clear();
  std::vector<Tape::Root> roots;
  for (size_t k = 0; k < share.targets.size(); ++k) {
    const Shape shape = {static_cast<int64_t>(share.targets[k].size()), own.output_widths()[k]};
    const Tensor gradient = Tensor::empty(own.device(), shape, {.dtype = own.dtype()});
    communicate(rank, [&] {
      communicator.scatter(output ? comm_buffer(gathered_gradients[k]) : nothing(own.dtype()), comm_buffer(gradient),
                           options_.output_rank);
    });
    if (!outputs.empty()) roots.push_back({.output = outputs[k], .gradient = gradient});
  }
  return roots;
}

}  // namespace dptrain::parallel
