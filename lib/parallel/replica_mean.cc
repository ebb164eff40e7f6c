#include "parallel/replica_mean.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "ops/approach.h"
#include "ops/sgd.h"
#include "parallel/comm_buffer.h"
#include "parallel/idle_devices.h"

namespace dptrain::parallel {
namespace {

constexpr const char *kWeights = "weights", *kRunning = "running", *kSamples = "samples";
constexpr const char *kAnchor = "anchor.", *kVelocity = "velocity.";
/// Checkpoint name of what compression leaves out: it is of changes of a rank's weights, not of gradients.
constexpr const char* kUnsent = "displacement";

std::string name_of_rank(const std::string& name, int rank) { return fmt::format("{}.{}", name, rank); }

const nn::NamedValues* find_saved(const std::vector<nn::NamedValues>& state, const std::string& name) {
  const auto found = std::ranges::find(state, name, &nn::NamedValues::name);
  return found == state.end() ? nullptr : &*found;
}

const nn::NamedValues& required_saved(const std::vector<nn::NamedValues>& state, const std::string& name,
                                      const Shape& shape) {
  const nn::NamedValues* found = find_saved(state, name);
  if (found != nullptr && found->shape == shape) return *found;
  throw Error(ExitCode::bad_data,
              Mistake{.where = "replicas.safetensors: " + name,
                      .expected = "expected a tensor of " + shape.text(),
                      .got = found != nullptr ? found->shape.text() : "none",
                      .advice = "the checkpoint is damaged or belongs to another model; use another checkpoint"});
}

/// Loads a flat tensor in the order of the weights.
void load_required(const nn::Model& model, const Tensor& flat, const std::vector<nn::NamedValues>& state,
                   const std::string& prefix) {
  for (const Parameter* parameter : model.parameters())
    required_saved(state, prefix + parameter->name(), parameter->shape());
  nn::load_by_parameter(model, flat, state, prefix);
}

}  // namespace

ReplicaMean::ReplicaMean(Replica& replica, Communicator& communicator, const Options& options)
    : replica_(replica), communicator_(communicator), options_(options) {
  const Tensor& weights = replica.model().weights();
  held_.push_back({.name = kWeights, .values = weights});
  if (const Tensor& running = replica.model().running_states(); running.elements() > 0)
    held_.push_back({.name = kRunning, .values = running, .by_parameter = false});
  evaluated_ = held_.size();
  for (const optim::OptimizerState& state : replica.optimizer_state()) held_.push_back({state.name, state.values});
  averaged_ = options.averages_state ? held_.size() : evaluated_;
  const bool compresses = options.compress.method != CompressionOptions::Method::none && communicator.size() > 1;
  if (compresses) {
    compression_ = std::make_unique<GradientCompression>(GradientCompression::Context{.model = replica.model(),
                                                                                      .communicator = communicator,
                                                                                      .loss_factor = {},
                                                                                      .seed = options.seed,
                                                                                      .residual_name = kUnsent},
                                                         options.compress);
    buckets_ = std::make_unique<GradientBuckets>(
        replica.model(), BucketOptions{},
        [this](const Bucket& bucket, int priority) { return compression_->sum_of(bucket, priority); });
  }
  if (options.combination == Combination::adasum && communicator.size() > 1)
    adasum_ = std::make_unique<AdasumExchange>(communicator, optim::FlatWeights::of(replica.model()),
                                               [this] { wait_until_idle(); });
  DPTRAIN_CHECK(!adasum_ || !compression_, "Adasum of compressed weights");
  if (options.outer.is_plain() && !compresses && !adasum_) return;
  const TensorOptions kept{.purpose = MemoryPurpose::optimizer};
  anchor_ = Tensor::zeros(replica.device(), weights.shape(), kept);
  if (options.outer.momentum > 0) velocity_ = Tensor::zeros(replica.device(), weights.shape(), kept);
  set_anchor();
}

void ReplicaMean::count_step(int64_t own_samples, int64_t all_samples) {
  own_samples_ += own_samples;
  all_samples_ += all_samples;
  states_differ_ = communicator_.size() > 1 && held_.size() > evaluated_;
}

ReplicaMean::Range ReplicaMean::apart(Shown shown) const {
  return {.begin = is_apart() ? 0 : evaluated_,
          .end = shown == Shown::all && states_differ_ ? held_.size() : evaluated_};
}

void ReplicaMean::wait_until_idle() {
  if (!options_.has_gpus || communicator_.size() == 1) return;
  wait_until_all_idle(replica_.device(), communicator_);
}

double ReplicaMean::share() const {
  // Weights are equal, but states may differ: all replicas count alike.
  if (all_samples_ == 0) return 1.0 / communicator_.size();
  return static_cast<double>(own_samples_) / static_cast<double>(all_samples_);
}

Tensor ReplicaMean::mean_of(const Held& held, float factor) {
  const Tensor mean = Tensor::zeros(replica_.device(), held.values.shape(), {.purpose = MemoryPurpose::workspace});
  ops::approach(mean, held.values, factor * static_cast<float>(share()));
  if (communicator_.size() == 1) return mean;
  wait_until_idle();
  communicator_.all_reduce(comm_buffer(mean));
  wait_until_idle();
  return mean;
}

void ReplicaMean::end_averaging() {
  replica_.model().refresh_copies();
  own_samples_ = all_samples_ = 0;
  states_differ_ = states_differ_ && !options_.averages_state;
}

void ReplicaMean::set_anchor() {
  if (anchor_.defined()) anchor_.copy_from(replica_.model().weights());
}

Tensor ReplicaMean::way_to_anchor() const {
  const Tensor way = Tensor::empty(replica_.device(), anchor_.shape(), {.purpose = MemoryPurpose::workspace});
  way.copy_from(anchor_);
  ops::sgd_step(way, held_.front().values, {}, {.learning_rate = 1});
  return way;
}

Tensor ReplicaMean::compressed_gradient() {
  const Tensor& gradient = replica_.model().gradients();
  gradient.fill_zero();
  ops::approach(gradient, way_to_anchor(), static_cast<float>(share()));
  wait_until_idle();
  if (options_.has_gpus) {
    buckets_->finish_apart([this] { wait_until_idle(); });
    return gradient;
  }
  buckets_->reduce_all();
  return gradient;
}

Tensor ReplicaMean::adasum_gradient() {
  const Tensor gradient = way_to_anchor();
  adasum_->combine(gradient);
  return gradient;
}

Tensor ReplicaMean::preview_of(const Held& held) {
  if (!adasum_ || held.name != kWeights) return mean_of(held, 1);
  const Tensor gradient = adasum_gradient(),
               weights = Tensor::empty(replica_.device(), anchor_.shape(), {.purpose = MemoryPurpose::workspace});
  weights.copy_from(anchor_);
  ops::sgd_step(weights, gradient, {}, {.learning_rate = 1});
  return weights;
}

void ReplicaMean::take_others() {
  if (communicator_.size() == 1) return;
  for (size_t i = 1; i < averaged_; ++i) held_[i].values.copy_from(mean_of(held_[i], 1));
}

void ReplicaMean::take() {
  if (compression_ || adasum_) return take_from_anchor({});
  if (communicator_.size() > 1) held_.front().values.copy_from(mean_of(held_.front(), 1));
  take_others();
  set_anchor();
  end_averaging();
}

void ReplicaMean::take_from_anchor(const OuterStep& step) {
  ops::sgd_step(anchor_, adasum_ ? adasum_gradient() : compressed_gradient(), step.momentum > 0 ? velocity_ : Tensor(),
                {.learning_rate = step.learning_rate, .momentum = step.momentum, .nesterov = step.momentum > 0});
  end_outer_step();
}

void ReplicaMean::take_outer_step() {
  if (compression_ || adasum_) return take_from_anchor(options_.outer);
  if (!anchor_.defined()) return take();
  // With a weight decay of 1, the gradient is the anchor minus the mean.
  ops::sgd_step(anchor_, mean_of(held_.front(), -1), velocity_,
                {.learning_rate = options_.outer.learning_rate,
                 .momentum = options_.outer.momentum,
                 .weight_decay = 1,
                 .nesterov = options_.outer.momentum > 0});
  end_outer_step();
}

void ReplicaMean::end_outer_step() {
  if (options_.unlike_ranks) {
    wait_until_idle();
    communicator_.broadcast(comm_buffer(anchor_), 0);
    wait_until_idle();
  }
  held_.front().values.copy_from(anchor_);
  take_others();
  end_averaging();
}

void ReplicaMean::swap(Shown shown) {
  if (!kept_.empty()) {
    for (size_t i = 0; i < kept_.size(); ++i) held_[kept_from_ + i].values.copy_from(kept_[i]);
    kept_.clear();
  } else {
    const auto [begin, end] = apart(shown);
    kept_from_ = begin;
    for (size_t i = begin; i < end; ++i) {
      const Tensor& values = held_[i].values;
      kept_.push_back(Tensor::empty(replica_.device(), values.shape(), {.purpose = MemoryPurpose::workspace}));
      kept_.back().copy_from(values);
      values.copy_from(preview_of(held_[i]));
    }
  }
  replica_.model().refresh_copies();
}

std::vector<nn::NamedValues> ReplicaMean::named(const Held& held, const Tensor& values, int rank) const {
  const std::string name = name_of_rank(held.name, rank);
  if (held.by_parameter) return nn::values_by_parameter(replica_.model(), values, name + ".");
  return {{.name = name, .shape = values.shape(), .values = values.values()}};
}

void ReplicaMean::load(const Held& held, const std::vector<nn::NamedValues>& state, int rank) const {
  const std::string name = name_of_rank(held.name, rank);
  if (held.by_parameter) return load_required(replica_.model(), held.values, state, name + ".");
  const nn::NamedValues& saved = required_saved(state, name, held.values.shape());
  held.values.copy_from(Tensor::from(replica_.device(), saved.shape, saved.values, MemoryPurpose::workspace));
}

std::vector<nn::NamedValues> ReplicaMean::gather_state() {
  std::vector<nn::NamedValues> state;
  const auto [begin, end] = apart(Shown::all);
  std::vector<Held> held;
  if (begin < end) {
    const std::vector<float> samples = {static_cast<float>(own_samples_)};
    held.assign(held_.begin() + static_cast<std::ptrdiff_t>(begin), held_.begin() + static_cast<std::ptrdiff_t>(end));
    held.push_back({.name = kSamples,
                    .values = Tensor::from(replica_.device(), {1}, samples, MemoryPurpose::workspace),
                    .by_parameter = false});
  }
  for (const Held& one : held) {
    if (communicator_.rank() != 0) {
      communicator_.send(comm_buffer(one.values), 0);
      continue;
    }
    const Tensor other = Tensor::empty(replica_.device(), one.values.shape(), {.purpose = MemoryPurpose::workspace});
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      if (rank > 0) communicator_.receive(comm_buffer(other), rank);
      std::ranges::move(named(one, rank == 0 ? one.values : other, rank), std::back_inserter(state));
    }
  }
  if (communicator_.rank() != 0) return state;
  // Right after an averaging, the anchor equals the weights.
  for (const auto& [prefix, values] :
       {std::pair(kAnchor, all_samples_ > 0 ? anchor_ : Tensor()), {kVelocity, velocity_}})
    if (values.defined())
      std::ranges::move(nn::values_by_parameter(replica_.model(), values, prefix), std::back_inserter(state));
  return state;
}

std::vector<nn::NamedValues> ReplicaMean::gather_compression_state() {
  return compression_ ? compression_->gather_state() : std::vector<nn::NamedValues>();
}

void ReplicaMean::load_state(const TrainingState& training) {
  if (compression_) compression_->load_state(training.compression);
  const std::vector<nn::NamedValues>& state = training.replicas;
  const nn::Model& model = replica_.model();
  const std::string& first = model.parameters()[0]->name();
  own_samples_ = all_samples_ = 0;
  states_differ_ = false;
  set_anchor();
  for (const auto& [prefix, values] : {std::pair(kAnchor, anchor_), {kVelocity, velocity_}})
    if (values.defined() && find_saved(state, prefix + first) != nullptr) load_required(model, values, state, prefix);
  load_replicas(state);
  take_unsent(training.compression);
  replica_.model().refresh_copies();
}

void ReplicaMean::take_unsent(const std::vector<nn::NamedValues>& compression) {
  if (compression_ && compression_->residual().defined()) return;
  const nn::Model& model = replica_.model();
  const Tensor unsent =
      Tensor::zeros(replica_.device(), model.weights().shape(), {.purpose = MemoryPurpose::workspace});
  for (int rank = 0;; ++rank) {
    const std::string prefix = name_of_rank(kUnsent, rank) + ".";
    if (find_saved(compression, prefix + model.parameters()[0]->name()) == nullptr) return;
    load_required(model, unsent, compression, prefix);
    ops::sgd_step(model.weights(), unsent, {}, {.learning_rate = 1});
  }
}

void ReplicaMean::load_replicas(const std::vector<nn::NamedValues>& state) {
  int saved = 0;
  while (find_saved(state, name_of_rank(kSamples, saved)) != nullptr) ++saved;
  if (saved != communicator_.size()) return;
  const auto samples_of = [&](int rank) {
    return static_cast<int64_t>(required_saved(state, name_of_rank(kSamples, rank), {1}).values[0]);
  };
  own_samples_ = samples_of(communicator_.rank());
  for (int rank = 0; rank < saved; ++rank) all_samples_ += samples_of(rank);
  // If each device kept its own state and this run averages states, it continues from their mean.
  states_differ_ = held_.size() > evaluated_ && (all_samples_ > 0 || !options_.averages_state);
  const auto [begin, end] = apart(Shown::all);
  for (size_t i = begin; i < end; ++i) load(held_[i], state, communicator_.rank());
}

}  // namespace dptrain::parallel
