#include "parallel/local_key_value_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ops/clip.h"
#include "ops/square_sum.h"
#include "parallel/comm_buffer.h"

namespace dptrain::parallel {
namespace {

Tensor window_of(const Tensor& flat, const StoreKey& key) {
  return flat.window(key.begin, {key.end - key.begin}, Layout::plain);
}

}  // namespace

StoreMemory::StoreMemory(int ranks, int threads, bool counts_only)
    : device(open_device({DeviceKind::cpu, 0}, {.rank = ranks, .threads = threads, .counts_only = counts_only})),
      gradients(static_cast<size_t>(ranks)) {}

LocalKeyValueStore::LocalKeyValueStore(const StoreContext& context, Communicator& host,
                                       std::shared_ptr<StoreMemory> memory)
    : context_(context), host_(host), memory_(std::move(memory)) {}

void LocalKeyValueStore::take_in() {
  const Shape shape = context_.model.weights().shape();
  memory_->gradients[static_cast<size_t>(host_.rank())] =
      Tensor::zeros(*memory_->device, shape, {.purpose = MemoryPurpose::gradients});
  if (keeps()) {
    memory_->weights = Tensor::zeros(*memory_->device, shape, {.purpose = MemoryPurpose::weights});
    memory_->optimizer = context_.optimizer.make({.weights = memory_->weights,
                                                  .gradients = memory_->gradients[0],
                                                  .runs = optim::weight_runs_of(context_.model),
                                                  .parameters = std::ssize(keys())});
    memory_->norms = {context_.optimizer, *memory_->device, std::ssize(keys())};
    read_weights();
  }
  host_.barrier();
}

void LocalKeyValueStore::read_weights() {
  const Tensor& weights = context_.model.weights();
  weights.device().download(memory_->weights.raw(), weights.raw(), weights.bytes());
}

void LocalKeyValueStore::count(int64_t bytes) {
  counts_.bytes += bytes;
  ++counts_.collectives;
}

std::unique_ptr<CommWork> LocalKeyValueStore::start_sum(size_t key) {
  const Tensor gradient = window_of(context_.model.gradients(), keys()[key]);
  const Tensor copy = window_of(memory_->gradients[static_cast<size_t>(host_.rank())], keys()[key]);
  gradient.device().download(copy.raw(), gradient.raw(), gradient.bytes());
  count(gradient.bytes());
  return host_.start_reduce(comm_buffer(copy), 0);
}

void LocalKeyValueStore::fetch(size_t key) {
  const Tensor weights = window_of(context_.model.weights(), keys()[key]);
  weights.device().upload(weights.raw(), window_of(memory_->weights, keys()[key]).raw(), weights.bytes());
  count(weights.bytes());
}

void LocalKeyValueStore::update(const optim::OptimizerStep& step, optim::LossScale* loss_scale) {
  if (loss_scale != nullptr) {
    // The sum overflows if any rank's gradient does, so each rank checks its own gradients.
    loss_scale->look_at(context_.model.gradients());
    context_.communicator.all_reduce(comm_buffer(loss_scale->found()));
  }
  if (keeps()) update_all(step, loss_scale);
  const InPhase communicating(context_.clock, Phase::communication);
  host_.barrier();
}

void LocalKeyValueStore::update_all(const optim::OptimizerStep& step, const optim::LossScale* loss_scale) {
  const InPhase updating(context_.clock, Phase::optimizer);
  if (context_.observer != nullptr) context_.observer->on_gradients(context_.model, memory_->gradients[0], 0);
  // `step` has its control values on the rank's device; the host's update gets them as host values.
  optim::OptimizerStep on_host{.learning_rate = step.learning_rate, .number = step.number};
  if (loss_scale != nullptr) {
    const optim::LossScale::Moment now = loss_scale->moment();
    if (now.overflows) return;
    on_host.number -= now.skipped;
    on_host.control.gradient_factor =
        Tensor::from(*memory_->device, {1}, std::vector<float>{now.inverse}, MemoryPurpose::workspace);
  }
  if (context_.clip_norm)
    on_host.control.gradient_factor =
        ops::clip_factor(ops::square_sum(memory_->gradients[0]), *context_.clip_norm, on_host.control.gradient_factor);
  memory_->norms.measure(on_host, [&](const Tensor& squares) { memory_->optimizer->measure(on_host, squares); });
  memory_->optimizer->step(on_host);
}

std::vector<nn::NamedValues> LocalKeyValueStore::gather_state() {
  std::vector<nn::NamedValues> state;
  if (!keeps()) return state;
  for (const optim::OptimizerState& kept : memory_->optimizer->state()) {
    auto by_parameter = nn::values_by_parameter(context_.model, kept.values, kept.name + ".");
    std::ranges::move(by_parameter, std::back_inserter(state));
  }
  return state;
}

void LocalKeyValueStore::restore(const std::vector<nn::NamedValues>& state) {
  if (keeps()) {
    read_weights();
    if (!state.empty())
      for (const optim::OptimizerState& kept : memory_->optimizer->state())
        nn::load_by_parameter(context_.model, kept.values, state, kept.name + ".");
  }
  host_.barrier();
}

std::vector<int64_t> LocalKeyValueStore::held_bytes() const {
  return {memory_->device->allocator().in_use().total_bytes()};
}

}  // namespace dptrain::parallel
