// What a replica measures besides training: scores of samples, and its speed.
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "ops/cross_entropy.h"
#include "parallel/replica.h"
#include "parallel/sharded_replica.h"

namespace dptrain::parallel {
namespace {

template <class T>
std::vector<T> downloaded(const Tensor& tensor) {
  std::vector<T> values(static_cast<size_t>(tensor.elements()));
  tensor.device().download(values.data(), tensor.data<T>(), tensor.bytes());
  return values;
}

}  // namespace

double Replica::measure_speed(const Dataset& dataset, int64_t samples) {
  constexpr double kSeconds = 0.2;
  constexpr int kPasses = 3;
  std::vector<int64_t> first(static_cast<size_t>(samples));
  std::iota(first.begin(), first.end(), 0);
  const BatchPart part = load_part(dataset, first, device_);
  const Tensor& statistics = model_->running_states();
  const Tensor kept = Tensor::empty(device_, statistics.shape(), {.purpose = MemoryPurpose::workspace});
  kept.copy_from(statistics);
  // Devices make different numbers of passes, so none may wait for others' batch statistics.
  auto* const shared = std::exchange(statistics_, nullptr);
  Clock::time_point begun;
  // The first pass loads kernels and takes memory; it isn't timed.
  int passes = -1;
  for (; passes < kPasses || seconds_since(begun) < kSeconds; ++passes) {
    if (passes == 0) begun = Clock::now();
    begin_step({&part}, {}, {.counts = counted_labels(part), .samples = samples});
    forward_backward({&part}, {});
    exchange_.publish();
    end_step();
    exchange_.take(true);
  }
  const double seconds = seconds_since(begun);
  statistics_ = shared;
  statistics.copy_from(kept);
  // The gradients would take memory beside the activations of the first step.
  model_->forget_gradients();
  exchange_.take_device_times();
  return static_cast<double>(passes * samples) / seconds;
}

StepResults Replica::evaluate(const BatchPart& block, int64_t together) {
  Tape tape(Tape::Mode::forget);
  const bool with_others = evaluates_with_others();
  if (with_others) {
    sharded_->pass().begin_evaluation(together);
    tape.call_before_use([this](const Parameter& used) { sharded_->pass().enter_forward(used); });
  }
  const ModelSamples samples = reader_.uploaded(block);
  const std::vector<Variable> outputs = evaluation_outputs(tape.input(samples.x), samples);
  if (with_others) sharded_->pass().end();
  return results_of(outputs, samples, block);
}

void Replica::evaluate_nothing(int64_t together) {
  sharded_->pass().begin_evaluation(together);
  sharded_->pass().end();
}

std::vector<Variable> Replica::evaluation_outputs(const Variable& x, const ModelSamples& samples,
                                                  const nn::StageRange& stages) {
  return model_->outputs(x, {.tape = x.tape(), .text = samples.text}, stages);
}

StepResults Replica::results_of(const std::vector<Variable>& outputs, const ModelSamples& samples,
                                const BatchPart& block) {
  const std::vector<int64_t> counted = counted_labels(block);
  StepResults results{.outputs = {}, .samples = block.samples()};
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Tensor& logits = outputs[k].value();
    const auto correct = downloaded<int32_t>(ops::correct_samples(logits, samples.targets[k]));
    results.outputs.push_back({.losses = downloaded<double>(ops::cross_entropy_forward(logits, samples.targets[k])),
                               .correct = std::accumulate(correct.begin(), correct.end(), int64_t{0}),
                               .counted = counted[k]});
  }
  return results;
}

}  // namespace dptrain::parallel
