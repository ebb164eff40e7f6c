#include "parallel/pipeline_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "ops/reorder.h"

namespace dptrain::parallel {
namespace {

/// Adds the seconds of its scope.
class Timing {
 public:
  explicit Timing(double& seconds) : seconds_(seconds) {}
  ~Timing() { seconds_ += seconds_since(begun_); }
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;

 private:
  double& seconds_;
  Clock::time_point begun_ = Clock::now();
};

bool receives(const StageAction& action) { return action.kind != StageAction::Kind::backward_weights; }

std::vector<Replica::Place> places_of(Replica& replica, const StepParts& parts) {
  Replica::Place place{.rows = std::vector<int64_t>(parts.front()->targets.size())};
  std::vector<Replica::Place> places;
  for (const BatchPart* part : parts) {
    places.push_back(place);
    replica.go_past(place, *part);
  }
  return places;
}

}  // namespace

StageTimes& StageTimes::operator+=(const StageTimes& other) {
  forward_s += other.forward_s;
  backward_s += other.backward_s;
  backward_weights_s += other.backward_weights_s;
  waiting_s += other.waiting_s;
  micro_batches += other.micro_batches;
  return *this;
}

PipelineStage::PipelineStage(Replica& part, const StageLink::Ends& ends, const Neighbors& neighbors,
                             PlantedFault planted)
    : part_(part), planted_(planted) {
  if (neighbors.previous) previous_.emplace(part.device(), ends, *neighbors.previous);
  if (neighbors.next) next_.emplace(part.device(), ends, *neighbors.next);
}

StageLink::Signature PipelineStage::signature_of(const BatchPart& part, bool training) {
  StageLink::Signature signature = {training, part.samples()};
  for (const auto& labels : part.targets) signature.push_back(static_cast<int64_t>(labels.size()));
  return signature;
}

StageLink::Crossing PipelineStage::receive(StageLink& link, const StageLink::Signature& signature) {
  const InPhase communicating(part_.clock(), Phase::communication);
  const Timing waiting(times_.waiting_s);
  return link.receive(signature);
}

void PipelineStage::finish(std::unique_ptr<CommWork>& work) {
  if (work == nullptr) return;
  const InPhase communicating(part_.clock(), Phase::communication);
  const Timing waiting(times_.waiting_s);
  work->wait();
  work.reset();
}

void PipelineStage::add_gradients(std::span<const StageAction> actions, const StepParts& parts) {
  nn::Model& model = part_.model();
  model.forget_gradients();
  Step step{.parts = parts, .places = places_of(part_, parts), .under_way = {}, .gradient = {}};
  for (size_t a = 0; a < actions.size(); ++a) {
    const StageAction& action = actions[a];
    const auto next = std::ranges::find_if(actions.subspan(a + 1), receives);
    step.next = next != actions.end() ? &*next : nullptr;
    switch (action.kind) {
      case StageAction::Kind::forward: forward(step, action.micro_batch); break;
      case StageAction::Kind::backward_weights: backward_weights(step, action.micro_batch); break;
      default: backward(step, action);
    }
  }
  finish(step.gradient);
  part_.complete_gradients();
}

void PipelineStage::expect_next(const Step& step) {
  if (step.next == nullptr) return;
  const auto& [kind, micro_batch] = *step.next;
  const StageLink::Signature signature = signature_of(*step.parts[static_cast<size_t>(micro_batch)], true);
  if (kind == StageAction::Kind::forward) {
    if (previous_) previous_->expect(signature);
    return;
  }
  // Whether a gradient comes back is known once forward has been there.
  const auto own = step.under_way.find(micro_batch);
  if (next_ && own != step.under_way.end() && own->second.output.requires_gradient()) next_->expect(signature);
}

void PipelineStage::forward(Step& step, int64_t micro_batch) {
  const auto m = static_cast<size_t>(micro_batch);
  const BatchPart& part = *step.parts[m];
  const StageLink::Signature signature = signature_of(part, true);
  StageLink::Crossing received;
  if (previous_) received = receive(*previous_, signature);
  expect_next(step);
  const Timing computing(times_.forward_s);
  const InSpan span(part_.device().timeline(), fmt::format("forward {}", micro_batch + 1));
  ++times_.micro_batches;
  Underway& own = step.under_way[micro_batch];
  own.tape = std::make_unique<Tape>(part_.recording());
  const Replica::Samples samples = part_.samples_of(part, step.places[m]);
  const Variable x = previous_ ? own.tape->input(std::exchange(received.value, {}), received.requires_gradient)
                               : own.tape->input(samples.x);
  own.input = x.without_value();
  const std::vector<Variable> outputs = part_.forward(x, samples);
  if (!next_) {
    own.roots = part_.losses_of(outputs, samples.targets, step.places[m].rows);
    return;
  }
  const Variable& output = outputs.front();
  own.sending =
      next_->start_send(signature, {.value = output.value(), .requires_gradient = output.requires_gradient()});
  own.output = output.without_value();
  own.output_layout = output.value().layout();
}

void PipelineStage::backward(Step& step, const StageAction& action) {
  const int64_t micro_batch = action.micro_batch;
  const StageLink::Signature signature = signature_of(*step.parts[static_cast<size_t>(micro_batch)], true);
  Underway own = std::move(step.under_way.extract(micro_batch).mapped());
  if (next_) {
    // Nothing comes back to stages without trained parameters at the beginning of a model.
    if (own.output.requires_gradient()) {
      Tensor gradient = receive(*next_, signature).value;
      if (planted_ == PlantedFault::boundary_gradient) gradient.fill_zero();
      if (next_->plain()) gradient = ops::reorder(gradient, own.output_layout);
      own.roots.push_back({.output = own.output, .gradient = std::move(gradient)});
    }
    finish(own.sending);
  }
  expect_next(step);
  if (!own.roots.empty()) {
    const Timing computing(times_.backward_s);
    const bool whole = action.kind == StageAction::Kind::backward;
    const InSpan span(part_.device().timeline(), fmt::format("backward {}{}", whole ? "" : "data ", micro_batch + 1));
    if (whole) {
      own.tape->backward(std::move(own.roots));
    } else {
      own.tape->backward_data(std::move(own.roots));
      step.under_way[micro_batch].tape = std::move(own.tape);
    }
  }
  if (!previous_ || !own.input.requires_gradient()) return;
  finish(step.gradient);
  DPTRAIN_CHECK(own.input.gradient().defined(), "no gradient goes back to the stage before");
  step.gradient = previous_->start_send(signature, {.value = own.input.gradient()});
}

void PipelineStage::backward_weights(Step& step, int64_t micro_batch) {
  const auto own = step.under_way.extract(micro_batch);
  if (own.empty()) return;  // nothing has come back
  const Timing computing(times_.backward_weights_s);
  const InSpan span(part_.device().timeline(), fmt::format("backward weights {}", micro_batch + 1));
  own.mapped().tape->backward_weights();
}

std::vector<StepResults> PipelineStage::evaluate(const Dataset& dataset, std::span<const Block> blocks,
                                                 PredictedRows rows) {
  std::vector<StepResults> results;
  std::unique_ptr<CommWork> sending;
  for (const auto& [begin, end] : blocks) {
    const BatchPart block = previous_ ? load_block_without_images(dataset, begin, end, rows)
                                      : load_block(dataset, begin, end, part_.device(), rows);
    const StageLink::Signature signature = signature_of(block, false);
    Tape tape(Tape::Mode::forget);
    const Replica::Samples samples = part_.uploaded(block);
    const Variable x = tape.input(previous_ ? previous_->receive(signature).value : samples.x);
    const auto outputs = part_.evaluation_outputs(x, samples);
    if (!next_) {
      results.push_back(part_.results_of(outputs, samples, block));
      continue;
    }
    if (sending != nullptr) sending->wait();
    sending = next_->start_send(signature, {.value = outputs.front().value()});
  }
  if (sending != nullptr) sending->wait();
  return results;
}

}  // namespace dptrain::parallel
