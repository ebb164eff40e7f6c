#include "parallel/replica.h"

#include "autograd/cross_entropy.h"
#include "base/check.h"
#include "ops/cross_entropy.h"

namespace dptrain::parallel {

Tensor labels_tensor(Device& device, std::span<const int32_t> labels) {
  Tensor tensor = Tensor::empty(device, {static_cast<int64_t>(labels.size())}, {.dtype = DType::i32});
  device.upload(tensor.raw(), labels.data(), tensor.bytes());
  return tensor;
}

SampleResults results_of(const Tensor& losses, const Tensor& logits, const Tensor& labels) {
  const double* first = losses.data<double>();
  return {.losses = {first, first + losses.elements()}, .correct = ops::count_correct(logits, labels)};
}

Replica::Replica(Device& device, const ReplicaSpec& spec, bool with_optimizer)
    : device_(device),
      seed_(spec.initialization.seed),
      classes_(spec.input.classes),
      model_(spec.model.build({.device = device, .convolution = spec.convolution}, spec.input)) {
  model_->place(device, spec.initialization);
  if (with_optimizer) optimizer_ = spec.optimizer.make(*model_);
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
  const Variable logits = forward(tape, part.images, part.sample_ids, epoch);
  const Tensor labels = labels_tensor(device_, part.labels);
  const Variable losses = autograd::cross_entropy(logits, labels, scale);
  SampleResults results = results_of(losses.value(), logits.value(), labels);
  tape.backward(losses, losses.value(), ready);
  for (const Parameter* parameter : model_->parameters())
    DPTRAIN_CHECK(parameter->has_gradient(), "parameter {} got no gradient", parameter->name());
  return results;
}

SampleResults Replica::evaluate(const BatchPart& block) {
  Tape tape(Tape::Mode::forget);
  const Variable logits = model_->forward(tape.input(block.images), {.tape = tape});
  const Tensor labels = labels_tensor(device_, block.labels);
  return results_of(ops::cross_entropy_forward(logits.value(), labels), logits.value(), labels);
}

}  // namespace dptrain::parallel
