#include "parallel/replica_mean.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "ops/approach.h"
#include "ops/sgd.h"
#include "parallel/comm_buffer.h"

namespace dptrain::parallel {
namespace {

constexpr const char* kWeights = "weights";
constexpr const char* kRunning = "running";
constexpr const char *kAnchor = "anchor.", *kVelocity = "velocity.";

std::string prefix_of(const std::string& name, int rank) { return fmt::format("{}.{}.", name, rank); }

}  // namespace

ReplicaMean::ReplicaMean(Replica& replica, Communicator& communicator, const OuterStep& outer)
    : replica_(replica), communicator_(communicator), outer_(outer) {
  const Tensor& weights = replica.model().weights();
  held_.push_back({.name = kWeights, .values = weights});
  for (const optim::OptimizerState& state : replica.optimizer_state()) held_.push_back({state.name, state.values});
  if (const Tensor& running = replica.model().running_states(); running.elements() > 0)
    held_.push_back({.name = kRunning, .values = running, .by_parameter = false});
  if (outer.is_plain() || communicator.size() == 1) return;
  const TensorOptions kept{.purpose = MemoryPurpose::optimizer};
  anchor_ = Tensor::zeros(replica.device(), weights.shape(), kept);
  if (outer.momentum > 0) velocity_ = Tensor::zeros(replica.device(), weights.shape(), kept);
  set_anchor();
}

Tensor ReplicaMean::mean_of(const Held& held, float factor) {
  const Tensor mean = Tensor::zeros(replica_.device(), held.values.shape(), {.purpose = MemoryPurpose::workspace});
  ops::approach(mean, held.values, factor / static_cast<float>(communicator_.size()));
  // A GPU may wait for all that it is at work on to load a kernel: not while others wait for it.
  const auto wait_until_idle = [&] {
    if (has_met_) return;
    replica_.device().synchronize();
    communicator_.barrier();
  };
  wait_until_idle();
  communicator_.all_reduce(comm_buffer(mean));
  wait_until_idle();
  return mean;
}

void ReplicaMean::end_averaging() {
  has_met_ = true;
  replica_.model().refresh_copies();
  is_apart_ = false;
}

void ReplicaMean::set_anchor() {
  if (anchor_.defined()) anchor_.copy_from(replica_.model().weights());
}

void ReplicaMean::take() {
  if (communicator_.size() == 1) return;
  for (const Held& held : held_) held.values.copy_from(mean_of(held, 1));
  set_anchor();
  end_averaging();
}

void ReplicaMean::take_outer_step() {
  if (!anchor_.defined()) return take();
  // With a weight decay of 1 the gradient is how far the anchor lies from the mean.
  ops::sgd_step(anchor_, mean_of(held_.front(), -1), velocity_,
                {.learning_rate = outer_.learning_rate,
                 .momentum = outer_.momentum,
                 .weight_decay = 1,
                 .nesterov = outer_.momentum > 0});
  held_.front().values.copy_from(anchor_);
  for (size_t i = 1; i < held_.size(); ++i) held_[i].values.copy_from(mean_of(held_[i], 1));
  end_averaging();
}

void ReplicaMean::swap() {
  if (!kept_.empty()) {
    for (size_t i = 0; i < held_.size(); ++i) held_[i].values.copy_from(kept_[i]);
    kept_.clear();
    replica_.model().refresh_copies();
    is_apart_ = true;
  } else if (is_apart_) {
    for (const Held& held : held_) {
      kept_.push_back(Tensor::empty(replica_.device(), held.values.shape(), {.purpose = MemoryPurpose::workspace}));
      kept_.back().copy_from(held.values);
      held.values.copy_from(mean_of(held, 1));
    }
    end_averaging();
  }
}

std::vector<nn::NamedValues> ReplicaMean::named(const Held& held, const Tensor& values, int rank) const {
  if (held.by_parameter) return nn::values_by_parameter(replica_.model(), values, prefix_of(held.name, rank));
  return {{.name = fmt::format("{}.{}", held.name, rank), .shape = values.shape(), .values = values.values()}};
}

std::vector<nn::NamedValues> ReplicaMean::gather_state() {
  std::vector<nn::NamedValues> state;
  for (const Held& held : held_) {
    if (!is_apart_) break;
    if (communicator_.rank() != 0) {
      communicator_.send(comm_buffer(held.values), 0);
      continue;
    }
    const Tensor other = Tensor::empty(replica_.device(), held.values.shape(), {.purpose = MemoryPurpose::workspace});
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      if (rank > 0) communicator_.receive(comm_buffer(other), rank);
      std::ranges::move(named(held, rank == 0 ? held.values : other, rank), std::back_inserter(state));
    }
  }
  if (communicator_.rank() != 0) return state;
  for (const auto& [prefix, values] : {std::pair(kAnchor, anchor_), {kVelocity, velocity_}})
    if (values.defined())
      std::ranges::move(nn::values_by_parameter(replica_.model(), values, prefix), std::back_inserter(state));
  return state;
}

void ReplicaMean::load_state(const std::vector<nn::NamedValues>& state) {
  const nn::Model& model = replica_.model();
  const std::string& first = model.parameters()[0]->name();
  const auto find = [&](const std::string& name) { return std::ranges::find(state, name, &nn::NamedValues::name); };
  const auto has = [&](const std::string& prefix) { return find(prefix + first) != state.end(); };
  set_anchor();
  for (const auto& [prefix, values] : {std::pair(kAnchor, anchor_), {kVelocity, velocity_}})
    if (values.defined() && has(prefix)) nn::load_by_parameter(model, values, state, prefix);
  is_apart_ = false;
  int saved = 0;
  while (has(prefix_of(kWeights, saved))) ++saved;
  if (saved != communicator_.size()) return;
  for (const Held& held : held_) {
    if (held.by_parameter) {
      nn::load_by_parameter(model, held.values, state, prefix_of(held.name, communicator_.rank()));
    } else if (const auto own = find(fmt::format("{}.{}", held.name, communicator_.rank())); own != state.end()) {
      held.values.copy_from(Tensor::from(replica_.device(), own->shape, own->values, MemoryPurpose::workspace));
    }
  }
  replica_.model().refresh_copies();
  fall_apart();
}

}  // namespace dptrain::parallel
