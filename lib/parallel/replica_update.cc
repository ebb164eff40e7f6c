// Updates of a replica's weights from complete gradients.
#include "ops/clip.h"
#include "ops/square_sum.h"
#include "parallel/replica.h"

namespace dptrain::parallel {

optim::OptimizerStep Replica::optimizer_step() const {
  optim::OptimizerStep step{.learning_rate = numbers_.learning_rate,
                            .number = numbers_.step,
                            .control = {.learning_rate = exchange_.learning_rate(), .step = exchange_.step()}};
  if (loss_scale_) loss_scale_->fill(step.control);
  return step;
}

void Replica::update(const SumOverPipeline& sum) {
  const InPhase updating(clock_, Phase::optimizer);
  optim::OptimizerStep step = optimizer_step();
  model_->for_gradients([&](int64_t begin, const Tensor& gradients) {
    if (observer_ != nullptr) observer_->on_gradients(*model_, gradients, begin);
    if (loss_scale_) loss_scale_->look_at(gradients);
    if (measures_sums_) exchange_.add_squares(StepExchange::Squares::summed, gradients);
  });
  if (loss_scale_ && sum) sum(loss_scale_->found());
  if (clip_norm_) {
    const Tensor squares = ops::square_sum(model_->own_gradients());
    if (sum) sum(squares);
    step.control.gradient_factor = ops::clip_factor(squares, *clip_norm_, step.control.gradient_factor);
  }
  norms_.measure(step, [&](const Tensor& squares) { optimizer_->measure(step, squares); });
  model_->for_gradients(
      [&](int64_t begin, const Tensor& gradients) { optimizer_->step_range(begin, gradients, step); });
  model_->forget_gradients();
  end_update();
}

void Replica::update_run(const nn::ParameterRun& run, const optim::OptimizerStep& step) {
  const InPhase updating(clock_, Phase::optimizer);
  const Tensor gradients = model_->gradients(run.begin, run.end);
  if (observer_ != nullptr) observer_->on_gradients(*model_, gradients, run.begin);
  optimizer_->step_range(run.begin, gradients, step);
  model_->forget_gradients(run);
}

void Replica::end_update() {
  const InPhase updating(clock_, Phase::optimizer);
  if (average_) average_->follow(model_->weights());
  if (loss_scale_) loss_scale_->adapt();
}

void Replica::update_and_publish(const std::function<void()>& update) {
  exchange_.stamp(StepExchange::Point::reduced);
  update();
  exchange_.stamp(StepExchange::Point::updated);
  exchange_.publish();
}

}  // namespace dptrain::parallel
