#include "parallel/dist_key_value_store.h"

#include <algorithm>
#include <iterator>

#include "device/device.h"
#include "parallel/comm_buffer.h"

namespace dptrain::parallel {
namespace {

/// The work of a push, whose `wait` returns at once: `update` waits for all pushes of a step together. No gradient is
/// touched before that.
class PushedWork final : public CommWork {
 public:
  void wait() override {}
};

}  // namespace

DistKeyValueStore::DistKeyValueStore(const StoreContext& context, const DistStoreContext& dist)
    : context_(context), dist_(dist) {
  const auto nothing = optim::FlatWeights::of(context.model).range(0, 0);
  for (const auto& kept : context.optimizer.make(nothing)->state()) state_names_.push_back(kept.name);
  if (context.model.device().kind() != DeviceKind::cpu)
    on_host_.resize(static_cast<size_t>(context.model.weights().elements()));
  if (dist.logged != nullptr) log_.emplace(context.model.device(), *dist.logged, is_first_of_process());
}

void DistKeyValueStore::take_in() { restore({}); }

void DistKeyValueStore::begin_step(const optim::OptimizerStep& step) {
  dist_.client->begin_step({.number = step.number, .learning_rate = step.learning_rate});
}

std::unique_ptr<CommWork> DistKeyValueStore::start_sum(size_t key) {
  const Tensor gradient = window(context_.model.gradients(), key);
  const float* all = nullptr;
  if (dist_.subtree != nullptr) dist_.subtree->reduce(comm_buffer(gradient), 0);
  const bool pushes = dist_.subtree == nullptr || dist_.subtree->rank() == 0;
  if (gradient.device().kind() == DeviceKind::cpu) {
    all = context_.model.gradients().data<float>();
  } else if (pushes) {
    gradient.device().download(on_host_.data() + keys()[key].begin, gradient.raw(), gradient.bytes());
    all = on_host_.data();
  }
  const auto sums = static_cast<int64_t>(dist_.client->options().subtrees.size());
  const int64_t sent_bytes = gradient.bytes() * (is_first_of_process() ? sums : 1);
  // The push is logged first, since another rank may start sending as soon as this rank has pushed.
  if (pushes && log_) log_->push(key, comm_buffer(gradient), sent_bytes);
  if (pushes) dist_.client->push(dist_.process.rank(), key, all);
  if (!is_first_of_process()) counts_.bytes += sent_bytes;
  return std::make_unique<PushedWork>();
}

void DistKeyValueStore::update(const optim::OptimizerStep& step, optim::LossScale* loss_scale) {
  StoreCommand command{.number = step.number, .learning_rate = step.learning_rate};
  if (loss_scale != nullptr) {
    // The sum overflows if any rank's gradient does, so each rank checks its own gradients.
    loss_scale->look_at(context_.model.gradients());
    context_.communicator.all_reduce(comm_buffer(loss_scale->found()));
    const optim::LossScale::Moment now = loss_scale->moment();
    command.number -= now.skipped;
    command.gradient_factor = now.inverse;
    command.skips = now.overflows;
  }
  const InPhase communicating(context_.clock, Phase::communication);
  dist_.process.barrier();
  if (!is_first_of_process()) return;
  if (context_.observer != nullptr) show_sums();
  dist_.client->end_step(command);
  if (log_) log_->wait_until_sent();
}

void DistKeyValueStore::show_sums() {
  // An observer watches runs of one process only, so that process has the whole sums that the servers get.
  for (size_t key = 0; key < keys().size(); ++key) {
    const float* sum = dist_.client->whole_sum(key);
    const std::vector<float> values(sum + keys()[key].begin, sum + keys()[key].end);
    const auto elements = static_cast<int64_t>(values.size());
    const Tensor gradient = Tensor::from(context_.model.device(), {elements}, values, MemoryPurpose::workspace);
    context_.observer->on_gradients(context_.model, gradient, keys()[key].begin);
  }
}

void DistKeyValueStore::fetch(size_t key) {
  const Tensor weights = window(context_.model.weights(), key);
  if (is_first_of_process()) {
    const float* pulled = dist_.client->pulled(key);
    if (log_) log_->wait_for_weights(key);
    weights.device().upload(weights.raw(), pulled + keys()[key].begin, weights.bytes());
  }
  // No rank overwrites its gradients before this broadcast: the first rank has then seen that all of them were sent.
  dist_.process.broadcast(comm_buffer(weights), 0);
}

void DistKeyValueStore::settle() {
  context_.communicator.barrier();
  if (is_first_of_process()) dist_.client->pull();
  for (size_t key = 0; key < keys().size(); ++key) fetch(key);
  // No rank pushes before all ranks have the same weights.
  context_.communicator.barrier();
}

std::vector<nn::NamedValues> DistKeyValueStore::gather_state() {
  std::vector<nn::NamedValues> state;
  if (context_.communicator.rank() == 0) state = read_state();
  // No rank pushes before the state has been read.
  context_.communicator.barrier();
  return state;
}

std::vector<nn::NamedValues> DistKeyValueStore::read_state() {
  std::vector<nn::NamedValues> state;
  const Shape shape = context_.model.weights().shape();
  std::vector<std::vector<float>> flat(state_names_.size(), std::vector<float>(static_cast<size_t>(shape.elements())));
  std::vector<float*> into;
  for (auto& values : flat) into.push_back(values.data());
  dist_.client->read(into);
  for (size_t k = 0; k < flat.size(); ++k) {
    const Tensor whole = Tensor::from(context_.model.device(), shape, flat[k], MemoryPurpose::workspace);
    auto by_parameter = nn::values_by_parameter(context_.model, whole, state_names_[k] + ".");
    std::ranges::move(by_parameter, std::back_inserter(state));
  }
  return state;
}

void DistKeyValueStore::restore(const std::vector<nn::NamedValues>& state) {
  if (context_.communicator.rank() == 0) {
    std::vector<std::vector<float>> flat = {context_.model.weights().values()};
    for (const std::string& name : state_names_) {
      if (state.empty()) break;
      const Tensor whole = Tensor::zeros(context_.model.device(), context_.model.weights().shape(),
                                         {.purpose = MemoryPurpose::workspace});
      nn::load_by_parameter(context_.model, whole, state, name + ".");
      flat.push_back(whole.values());
    }
    std::vector<const float*> states;
    for (size_t k = 1; k < flat.size(); ++k) states.push_back(flat[k].data());
    dist_.client->write(flat[0].data(), states);
  }
  // No rank pushes before the state has been written.
  context_.communicator.barrier();
}

std::vector<int64_t> DistKeyValueStore::held_bytes() const {
  std::vector<int64_t> bytes;
  const auto tensors = static_cast<int64_t>(1 + state_names_.size());
  for (const StoreSlice& slice : dist_.client->options().slices) {
    bytes.resize(std::max(bytes.size(), static_cast<size_t>(slice.server) + 1));
    bytes[static_cast<size_t>(slice.server)] += tensors * slice.elements() * dtype_bytes(DType::f32);
  }
  return bytes;
}

ServedStore DistKeyValueStore::served() const {
  const StoreClientOptions& client = dist_.client->options();
  return {.slices = client.slices,
          .state_tensors = static_cast<int>(state_names_.size()),
          .updates_at_once = !client.ends_with_apply && !context_.clip_norm && !context_.optimizer.measures,
          .measures = context_.optimizer.measures};
}

CommCounts DistKeyValueStore::counts() const {
  CommCounts counts = counts_;
  if (is_first_of_process()) counts.bytes += dist_.client->counts().bytes;
  return counts;
}

}  // namespace dptrain::parallel
