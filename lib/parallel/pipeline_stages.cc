#include "parallel/pipeline_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
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

PipelineStages::Stage::Stage(const Position& in_pipeline, Device& device, const StageLink::Ends& ends)
    : position(in_pipeline) {
  if (position.previous) previous.emplace(device, ends, *position.previous);
  if (position.next) next.emplace(device, ends, *position.next);
}

PipelineStages::PipelineStages(Replica& replica, const StageLink::Ends& ends, std::span<const Position> positions,
                               PlantedFault planted)
    : replica_(replica), planted_(planted) {
  for (const Position& position : positions) {
    const Stage& added = stages_.emplace_back(position, replica.device(), ends);
    for (const auto* link : {&added.previous, &added.next})
      if (link->has_value()) inboxes_[(*link)->peer()];
  }
}

PipelineStages::Stage& PipelineStages::stage(int number) {
  const auto found = std::ranges::find(stages_, number, [](const Stage& own) { return own.position.stage; });
  DPTRAIN_CHECK(found != stages_.end(), "stage {} is on another device", number);
  return *found;
}

std::string PipelineStages::pass_name(const char* kind, const StageAction& action) const {
  const std::string name = fmt::format("{} {}", kind, action.micro_batch + 1);
  return stages_.size() > 1 ? fmt::format("{}, stage {}", name, action.stage) : name;
}

StageLink::Signature PipelineStages::signature_of(const BatchPart& part, bool training) {
  StageLink::Signature signature = {training, part.samples()};
  for (const auto& labels : part.targets) signature.push_back(static_cast<int64_t>(labels.size()));
  return signature;
}

void PipelineStages::list_arrivals(const PipelineStep& step, const ActionsOn& actions_on, const PartOf& part_of,
                                   bool training) {
  // A stage's neighbors are on the devices before and behind its own, all around.
  const int devices = step.devices(), own = device_number();
  const auto is_here = [&](int number) { return number < step.stages && step.device_of(number) == own; };
  const std::set<int> others = {(own + devices - 1) % devices, (own + 1) % devices};
  for (const int other : others) {
    for (const StageAction& action : actions_on(other)) {
      const bool forward = action.kind == StageAction::Kind::forward;
      const int to = forward ? action.stage + 1 : action.stage - 1;
      if (action.kind == StageAction::Kind::backward_weights || to < 0 || !is_here(to)) continue;
      Stage& at = stage(to);
      StageLink& link = forward ? *at.previous : *at.next;
      inbox_of(link).add({.link = link,
                          .micro_batch = action.micro_batch,
                          .signature = signature_of(part_of(action.micro_batch), training),
                          .comes = forward ? nullptr : &at.is_answered});
    }
  }
}

void PipelineStages::end_arrivals() {
  for (auto& [rank, inbox] : inboxes_) inbox.end();
}

StageLink::Crossing PipelineStages::receive(Stage& at, const StageLink& link, int64_t micro_batch) {
  const InPhase communicating(replica_.clock(), Phase::communication);
  const Timing waiting(at.times.waiting_s);
  return inbox_of(link).receive(link, micro_batch);
}

void PipelineStages::finish(Stage& at, std::unique_ptr<CommWork>& work) {
  if (work == nullptr) return;
  const InPhase communicating(replica_.clock(), Phase::communication);
  const Timing waiting(at.times.waiting_s);
  work->wait();
  work.reset();
}

void PipelineStages::add_gradients(const PipelineStep& step, const StepParts& parts, bool empty_too) {
  replica_.model().forget_gradients();
  const auto part_of = [&](int64_t micro_batch) -> const BatchPart& {
    return *parts[static_cast<size_t>(micro_batch)];
  };
  const auto actions_on = [&](int device) {
    std::vector<StageAction> actions = actions_of(step, device);
    if (!empty_too)
      std::erase_if(actions, [&](const StageAction& action) { return part_of(action.micro_batch).samples() == 0; });
    return actions;
  };
  list_arrivals(step, actions_on, part_of, true);
  StepUnderway own{.parts = parts, .places = places_of(replica_, parts), .under_way = {}, .gradient = {}};
  const std::vector<StageAction> actions = actions_on(device_number());
  for (size_t a = 0; a < actions.size(); ++a) {
    const StageAction& action = actions[a];
    const auto next = std::find_if(actions.begin() + static_cast<std::ptrdiff_t>(a) + 1, actions.end(), receives);
    own.next = next != actions.end() ? &*next : nullptr;
    switch (action.kind) {
      case StageAction::Kind::forward: forward(own, action); break;
      case StageAction::Kind::backward_weights: backward_weights(own, action); break;
      default: backward(own, action);
    }
  }
  finish(stages_.front(), own.gradient);
  end_arrivals();
  replica_.complete_gradients();
}

void PipelineStages::expect_next(const StepUnderway& step) {
  if (step.next == nullptr) return;
  const Stage& at = stage(step.next->stage);
  const auto& link = step.next->kind == StageAction::Kind::forward ? at.previous : at.next;
  if (link) inbox_of(*link).expect(*link, step.next->micro_batch);
}

void PipelineStages::forward(StepUnderway& step, const StageAction& action) {
  const auto m = static_cast<size_t>(action.micro_batch);
  Stage& at = stage(action.stage);
  const BatchPart& part = *step.parts[m];
  StageLink::Crossing received;
  if (at.previous) received = receive(at, *at.previous, action.micro_batch);
  expect_next(step);
  const Timing computing(at.times.forward_s);
  const InSpan span(replica_.device().timeline(), pass_name("forward", action));
  ++at.times.micro_batches;
  Underway& own = step.under_way[{action.stage, action.micro_batch}];
  own.tape = std::make_unique<Tape>(replica_.recording());
  const Replica::Samples samples = replica_.samples_of(part, step.places[m], at.position.units);
  const Variable x = at.previous ? own.tape->input(std::exchange(received.value, {}), received.requires_gradient)
                                 : own.tape->input(samples.x);
  own.input = x.without_value();
  const std::vector<Variable> outputs = replica_.forward(x, samples, at.position.units);
  if (!at.next) {
    own.roots = replica_.losses_of(outputs, samples.targets, step.places[m].rows);
    return;
  }
  const Variable& output = outputs.front();
  at.is_answered = output.requires_gradient();
  own.sending = at.next->start_send(signature_of(part, true),
                                    {.value = output.value(), .requires_gradient = output.requires_gradient()});
  own.output = output.without_value();
  own.output_layout = output.value().layout();
}

void PipelineStages::backward(StepUnderway& step, const StageAction& action) {
  Stage& at = stage(action.stage);
  Underway own = std::move(step.under_way.extract({action.stage, action.micro_batch}).mapped());
  if (at.next) {
    if (own.output.requires_gradient()) {
      Tensor gradient = receive(at, *at.next, action.micro_batch).value;
      if (planted_ == PlantedFault::boundary_gradient) gradient.fill_zero();
      if (at.next->plain()) gradient = ops::reorder(gradient, own.output_layout);
      own.roots.push_back({.output = own.output, .gradient = std::move(gradient)});
    }
    finish(at, own.sending);
  }
  expect_next(step);
  if (!own.roots.empty()) {
    const Timing computing(at.times.backward_s);
    const bool whole = action.kind == StageAction::Kind::backward;
    const InSpan span(replica_.device().timeline(), pass_name(whole ? "backward" : "backward data", action));
    if (whole) {
      own.tape->backward(std::move(own.roots));
    } else {
      own.tape->backward_data(std::move(own.roots));
      step.under_way[{action.stage, action.micro_batch}].tape = std::move(own.tape);
    }
  }
  if (!at.previous || !own.input.requires_gradient()) return;
  // At most one is on its way: whatever else its receiver waits for, what comes from here before that it takes first.
  finish(at, step.gradient);
  DPTRAIN_CHECK(own.input.gradient().defined(), "no gradient goes back to the stage before");
  step.gradient = at.previous->start_send(signature_of(*step.parts[static_cast<size_t>(action.micro_batch)], true),
                                          {.value = own.input.gradient()});
}

void PipelineStages::backward_weights(StepUnderway& step, const StageAction& action) {
  const auto own = step.under_way.extract({action.stage, action.micro_batch});
  if (own.empty()) return;  // nothing has come back
  const Timing computing(stage(action.stage).times.backward_weights_s);
  const InSpan span(replica_.device().timeline(), pass_name("backward weights", action));
  own.mapped().tape->backward_weights();
}

std::vector<StepResults> PipelineStages::evaluate(const PipelineStep& step, const Dataset& dataset,
                                                  std::span<const Block> blocks, PredictedRows rows) {
  const auto is_backward = [](const StageAction& action) { return action.kind != StageAction::Kind::forward; };
  const auto passes_on = [&](int device) {
    std::vector<StageAction> passes = actions_of(step, device);
    std::erase_if(passes, is_backward);
    return passes;
  };
  std::vector<BatchPart> parts;
  for (const auto& [begin, end] : blocks) parts.push_back(load_block_without_images(dataset, begin, end, rows));
  const auto part_of = [&](int64_t number) -> const BatchPart& { return parts[static_cast<size_t>(number)]; };
  list_arrivals(step, passes_on, part_of, false);
  std::vector<StepResults> results;
  std::unique_ptr<CommWork> sending;
  for (const StageAction& action : passes_on(device_number())) {
    Stage& at = stage(action.stage);
    const bool reads_images = !at.previous && part_of(action.micro_batch).text.tokens.empty();
    BatchPart with_images;
    if (reads_images) {
      const auto& [begin, end] = blocks[static_cast<size_t>(action.micro_batch)];
      with_images = load_block(dataset, begin, end, replica_.device(), rows);
    }
    const BatchPart& block = reads_images ? with_images : part_of(action.micro_batch);
    Tape tape(Tape::Mode::forget);
    const Replica::Samples samples = replica_.uploaded(block, at.position.units);
    const Variable x =
        tape.input(at.previous ? inbox_of(*at.previous).receive(*at.previous, action.micro_batch).value : samples.x);
    const auto outputs = replica_.evaluation_outputs(x, samples, at.position.units);
    if (!at.next) {
      results.push_back(replica_.results_of(outputs, samples, block));
      continue;
    }
    if (sending != nullptr) sending->wait();
    sending = at.next->start_send(signature_of(block, false), {.value = outputs.front().value()});
  }
  if (sending != nullptr) sending->wait();
  end_arrivals();
  return results;
}

std::vector<StageTimes> PipelineStages::take_times() {
  std::vector<StageTimes> times;
  for (Stage& own : stages_) times.push_back(std::exchange(own.times, {}));
  return times;
}

}  // namespace dptrain::parallel
