#include "parallel/replica.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "autograd/cross_entropy.h"
#include "base/check.h"
#include "data/images_on_device.h"
#include "ops/clip.h"
#include "ops/cross_entropy.h"

namespace dptrain::parallel {
namespace {

template <class T>
std::vector<T> downloaded(const Tensor& tensor) {
  std::vector<T> values(static_cast<size_t>(tensor.elements()));
  tensor.device().download(values.data(), tensor.data<T>(), tensor.bytes());
  return values;
}

}  // namespace

Tensor labels_tensor(Device& device, std::span<const int32_t> labels) {
  Tensor tensor = Tensor::empty(device, {static_cast<int64_t>(labels.size())}, {.dtype = DType::i32});
  device.upload(tensor.raw(), labels.data(), tensor.bytes());
  return tensor;
}

Replica::Replica(Device& device, const ReplicaSpec& spec, const ReplicaDuties& duties)
    : device_(device),
      seed_(spec.initialization.seed),
      classes_(spec.input.classes),
      precision_(spec.precision),
      model_(spec.model.build({.device = device, .convolution = spec.convolution, .plain_weights = spec.mixed_devices},
                              spec.input)),
      clip_norm_(spec.clip_norm),
      exchange_(device, spec.steps_in_flight),
      recorder_(device) {
  model_->place(device, spec.initialization, compute_dtype(spec.precision));
  if (duties.updates) optimizer_ = spec.optimizer.make(*model_);
  if (precision_ == Precision::fp16) loss_scale_.emplace(device);
  if (duties.averages && spec.average_decay) average_.emplace(*model_, *spec.average_decay);
}

void Replica::begin_step(const StepParts& parts, const StepNumbers& numbers, bool keeps_results) {
  numbers_ = numbers;
  std::vector<int64_t> ids;
  for (const BatchPart* part : parts) ids.insert(ids.end(), part->sample_ids.begin(), part->sample_ids.end());
  exchange_.begin({.learning_rate = numbers.learning_rate,
                   .epoch = numbers.epoch,
                   .step = numbers.step,
                   .sample_ids = std::move(ids),
                   .keeps_results = keeps_results});
}

StepRecorder::How Replica::run_part(int part, StepRecorder::Signature signature, const StepParts& parts,
                                    const StepRecorder::Give& give) {
  for (const BatchPart* samples : parts) {
    // The data set is copied to a GPU before anything is recorded.
    if (!samples->images.defined() && samples->samples() > 0 &&
        !device_.attached<DeviceDatasets>().of(*samples->dataset).resident()) {
      give(StepRecorder::How::done);
      return StepRecorder::How::done;
    }
    signature.push_back(samples->samples());
  }
  signature.push_back(exchange_.generation());
  return recorder_.run(part, signature, give);
}

Replica::Samples Replica::decoded(const BatchPart& part, const Tensor& ids) {
  if (part.images.defined()) return {.images = part.images, .labels = labels_tensor(device_, part.labels)};
  ops::DecodeOptions options{.dtype = dtype(), .augmentations = part.augmentations};
  if (!options.augmentations.empty()) options.epoch = exchange_.epoch();
  const auto batch = device_.attached<DeviceDatasets>().of(*part.dataset).batch(ids, part.sample_ids, options);
  return {.images = batch.images, .labels = batch.labels};
}

Replica::Samples Replica::samples_of(const BatchPart& part, int64_t first) {
  return decoded(part, exchange_.sample_ids().samples(first, first + part.samples()));
}

Variable Replica::forward(Tape& tape, const Tensor& images, const Tensor& sample_ids) {
  return model_->forward(
      tape.input(images),
      {.tape = tape, .training = true, .seed = seed_, .epoch = exchange_.epoch(), .sample_ids = sample_ids});
}

void Replica::forward_backward(const StepParts& parts, double scale, const GradientReadyHook& ready) {
  exchange_.stamp(StepExchange::Point::begun);
  model_->forget_gradients();
  int64_t first = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    add_gradients(*parts[p], first, scale, p + 1 == parts.size() ? ready : GradientReadyHook());
    first += parts[p]->samples();
  }
  exchange_.stamp(StepExchange::Point::computed);
}

void Replica::complete_gradients(const GradientReadyHook& ready) {
  for (auto at = model_->parameters().rbegin(); at != model_->parameters().rend(); ++at) {
    Parameter& parameter = **at;
    if (!parameter.has_gradient()) parameter.gradient().fill_zero();
    parameter.mark_gradient();
    if (ready) ready(parameter);
  }
}

void Replica::add_gradients(const BatchPart& part, int64_t first, double scale, const GradientReadyHook& ready) {
  if (part.samples() == 0) {
    complete_gradients(ready);
    return;
  }
  Tape tape(Tape::Mode::record);
  const auto [images, labels] = samples_of(part, first);
  const Variable logits = forward(tape, images, exchange_.sample_ids().samples(first, first + part.samples()));
  const Variable losses = autograd::cross_entropy(logits, labels, {.scale = scale, .factor = loss_factor()});
  exchange_.keep(first, losses.value(), ops::correct_samples(logits.value(), labels));
  tape.backward(losses, losses.value(), ready);
  for (const Parameter* parameter : model_->parameters())
    DPTRAIN_CHECK(parameter->has_gradient(), "parameter {} got no gradient", parameter->name());
}

void Replica::update() {
  const InPhase updating(clock_, Phase::optimizer);
  optim::OptimizerStep step{.learning_rate = numbers_.learning_rate,
                            .number = numbers_.step,
                            .control = {.learning_rate = exchange_.learning_rate(), .step = exchange_.step()}};
  if (loss_scale_) {
    loss_scale_->look_at(model_->gradients());
    loss_scale_->fill(step.control);
  }
  if (clip_norm_)
    step.control.gradient_factor = ops::clip_factor(model_->gradients(), *clip_norm_, step.control.gradient_factor);
  optimizer_->step(*model_, step);
  if (average_) average_->follow(*model_);
  if (loss_scale_) loss_scale_->adapt();
}

TrainingState Replica::training_state() {
  TrainingState state{.model = nn::state_dict(*model_), .optimizer = {}, .average = {}, .loss_scale = {}};
  for (const optim::OptimizerState& kept : optimizer_->state()) {
    auto values = nn::values_by_parameter(*model_, kept.values, kept.name + ".");
    std::ranges::move(values, std::back_inserter(state.optimizer));
  }
  if (average_) state.average = nn::values_by_parameter(*model_, average_->values());
  if (loss_scale_) state.loss_scale = loss_scale_->numbers();
  return state;
}

void Replica::restore(const TrainingState& state) {
  if (!state.model.empty()) nn::load_state_dict(*model_, state.model);
  if (optimizer_ != nullptr && !state.optimizer.empty())
    for (const optim::OptimizerState& kept : optimizer_->state())
      nn::load_by_parameter(*model_, kept.values, state.optimizer, kept.name + ".");
  if (average_) {
    if (!state.average.empty())
      nn::load_by_parameter(*model_, average_->values(), state.average);
    else if (!state.model.empty())
      average_->restart(*model_);
  }
  if (loss_scale_ && state.loss_scale) loss_scale_->set(*state.loss_scale);
}

SampleResults Replica::evaluate(const BatchPart& block) {
  Tape tape(Tape::Mode::forget);
  Tensor ids;
  if (!block.images.defined()) {
    ids = Tensor::empty(device_, {block.samples()}, {.dtype = DType::i64});
    device_.upload(ids.raw(), block.sample_ids.data(), ids.bytes());
  }
  const auto [images, labels] = decoded(block, ids);
  const Variable logits = model_->forward(tape.input(images), {.tape = tape});
  const Tensor losses = ops::cross_entropy_forward(logits.value(), labels);
  const auto correct = downloaded<int32_t>(ops::correct_samples(logits.value(), labels));
  return {.losses = downloaded<double>(losses), .correct = std::accumulate(correct.begin(), correct.end(), int64_t{0})};
}

}  // namespace dptrain::parallel
