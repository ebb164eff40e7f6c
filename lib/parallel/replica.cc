#include "parallel/replica.h"

#include <numeric>

#include "autograd/cross_entropy.h"
#include "base/check.h"
#include "data/images_on_device.h"
#include "ops/cross_entropy.h"

namespace dptrain::parallel {

Tensor labels_tensor(Device& device, std::span<const int32_t> labels) {
  Tensor tensor = Tensor::empty(device, {static_cast<int64_t>(labels.size())}, {.dtype = DType::i32});
  device.upload(tensor.raw(), labels.data(), tensor.bytes());
  return tensor;
}

SampleResults results_of(const Tensor& losses, const Tensor& logits, const Tensor& labels) {
  const Tensor correct = ops::correct_samples(logits, labels);
  SampleResults results{.losses = std::vector<double>(static_cast<size_t>(losses.elements()))};
  std::vector<int32_t> flags(results.losses.size());
  losses.device().download(results.losses.data(), losses.data<double>(), losses.bytes());
  correct.device().download(flags.data(), correct.data<int32_t>(), correct.bytes());
  results.correct = std::accumulate(flags.begin(), flags.end(), int64_t{0});
  return results;
}

Replica::Replica(Device& device, const ReplicaSpec& spec, bool with_optimizer)
    : device_(device),
      seed_(spec.initialization.seed),
      classes_(spec.input.classes),
      precision_(spec.precision),
      model_(spec.model.build({.device = device, .convolution = spec.convolution}, spec.input)) {
  model_->place(device, spec.initialization, compute_dtype(spec.precision));
  if (with_optimizer) optimizer_ = spec.optimizer.make(*model_);
}

Replica::Samples Replica::samples_of(const BatchPart& part) {
  if (part.images.defined()) return {.images = part.images, .labels = labels_tensor(device_, part.labels)};
  const Tensor ids = Tensor::empty(device_, {part.samples()}, {.dtype = DType::i64});
  device_.upload(ids.raw(), part.sample_ids.data(), ids.bytes());
  const auto batch = device_.attached<DeviceDatasets>().of(*part.dataset).batch(ids, part.sample_ids, dtype());
  return {.images = batch.images, .labels = batch.labels};
}

Variable Replica::forward(Tape& tape, const Tensor& images, std::span<const int64_t> sample_ids, uint32_t epoch) {
  return model_->forward(tape.input(images),
                         {.tape = tape, .training = true, .seed = seed_, .epoch = epoch, .sample_ids = sample_ids});
}

SampleResults Replica::forward_backward(const BatchPart& part, double scale, uint32_t epoch,
                                        const GradientReadyHook& ready) {
  model_->forget_gradients();
  if (part.samples() == 0) {
    model_->gradients().fill_zero();
    for (auto parameter = model_->parameters().rbegin(); parameter != model_->parameters().rend(); ++parameter) {
      (*parameter)->mark_gradient();
      if (ready) ready(**parameter);
    }
    return {};
  }
  Tape tape(Tape::Mode::record);
  const auto [images, labels] = samples_of(part);
  const Variable logits = forward(tape, images, part.sample_ids, epoch);
  const Variable losses = autograd::cross_entropy(logits, labels, scale);
  SampleResults results = results_of(losses.value(), logits.value(), labels);
  tape.backward(losses, losses.value(), ready);
  for (const Parameter* parameter : model_->parameters())
    DPTRAIN_CHECK(parameter->has_gradient(), "parameter {} got no gradient", parameter->name());
  return results;
}

SampleResults Replica::evaluate(const BatchPart& block) {
  Tape tape(Tape::Mode::forget);
  const auto [images, labels] = samples_of(block);
  const Variable logits = model_->forward(tape.input(images), {.tape = tape});
  return results_of(ops::cross_entropy_forward(logits.value(), labels), logits.value(), labels);
}

}  // namespace dptrain::parallel
