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

/// Adds the duration of its scope to `seconds`.
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

std::vector<PartPlace> places_of(Replica& replica, const StepParts& parts) {
  PartPlace place{.rows = std::vector<int64_t>(parts.front()->targets.size())};
  std::vector<PartPlace> places;
  for (const BatchPart* part : parts) {
    places.push_back(place);
    replica.reader().go_past(place, *part);
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

PipelineStages::Stage::Stage(const Position& in_pipeline, size_t number_on_device, Device& device,
                             const StageLink::Ends& ends)
    : position(in_pipeline), number(number_on_device) {
  if (position.previous) previous.emplace(device, ends, *position.previous);
  if (position.next) next.emplace(device, ends, *position.next);
}

PipelineStages::PipelineStages(Replica& replica, const StageLink::Ends& ends, std::span<const Position> positions,
                               PlantedFault planted)
    : replica_(replica), recorder_(replica), planted_(planted) {
  for (const Position& position : positions) {
    const Stage& added = stages_.emplace_back(position, stages_.size(), replica.device(), ends);
    for (const auto* link : {&added.previous, &added.next})
      if (link->has_value()) inboxes_[(*link)->peer()];
  }
  // A planned device has no clock.
  if (replica.device().kind() == DeviceKind::cuda && replica.device().computes())
    laps_.emplace(replica.device(), stages_.size());
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
  // A stage's neighbors are on the devices before and after its own, in a ring.
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
                          .comes = forward ? nullptr : &at.is_answered,
                          .place = recorder_.place_of(link, action.micro_batch)});
    }
  }
}

void PipelineStages::end_arrivals() {
  for (auto& [rank, inbox] : inboxes_) inbox.end();
}

StageLink::Crossing PipelineStages::receive(Stage& at, const StageLink& link, int64_t micro_batch) {
  const InPhase communicating(replica_.clock(), Phase::communication);
  const Timing waiting(at.times.waiting_s);
  StageLink::Crossing received = inbox_of(link).receive(link, micro_batch);
  recorder_.note_received(link, micro_batch, received.value);
  return received;
}

void PipelineStages::finish(Stage& at, std::unique_ptr<CommWork>& work) {
  if (work == nullptr) return;
  const InPhase communicating(replica_.clock(), Phase::communication);
  const Timing waiting(at.times.waiting_s);
  work->wait();
  work.reset();
}

void PipelineStages::make_step(const StepParts& parts, const std::function<void(bool rehearses)>& make) {
  recorder_.make_step(parts, [&](PassRecorder::Mode mode) {
    if (mode == PassRecorder::Mode::rehearsed) return rehearse(make);
    const bool is_new = mode == PassRecorder::Mode::done && recorder_.records();
    is_lapped_ = laps_ && !is_new && lapped_steps_ < kLappedSteps;
    if (is_lapped_) {
      ++lapped_steps_;
      laps_->begin_step();
    }
    make(false);
    is_lapped_ = false;
  });
}

void PipelineStages::rehearse(const std::function<void(bool rehearses)>& make) {
  const auto all_links_rehearse = [&](bool rehearse) {
    for (Stage& own : stages_)
      for (auto* link : {&own.previous, &own.next})
        if (*link) (*link)->rehearse(rehearse);
  };
  all_links_rehearse(true);
  make(true);
  all_links_rehearse(false);
}

Tensor PipelineStages::do_pass(Stage& at, StageLaps::Of kind, double& seconds, const std::function<Tensor()>& give) {
  const Timing computing(seconds);
  if (is_lapped_) laps_->add(at.number, StageLaps::Of::waiting);
  Tensor sent = recorder_.run([&] { return std::vector<Tensor>{give()}; }).front();
  if (is_lapped_) laps_->add(at.number, kind);
  return sent;
}

void PipelineStages::add_gradients(const PipelineStep& step, const StepParts& parts, bool empty_too) {
  if (recorder_.mode() != PassRecorder::Mode::replayed) replica_.model().forget_gradients();
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
  recorder_.run_without_results([&] { replica_.complete_gradients(); });
}

void PipelineStages::expect_next(const StepUnderway& step) {
  if (step.next == nullptr) return;
  const Stage& at = stage(step.next->stage);
  const auto& link = step.next->kind == StageAction::Kind::forward ? at.previous : at.next;
  if (link) inbox_of(*link).expect(*link, step.next->micro_batch);
}

void PipelineStages::forward(StepUnderway& step, const StageAction& action) {
  Stage& at = stage(action.stage);
  StageLink::Crossing received;
  if (at.previous) received = receive(at, *at.previous, action.micro_batch);
  expect_next(step);
  if (!laps_ || is_lapped_) ++at.times.micro_batches;
  Underway& own = step.under_way[{action.stage, action.micro_batch}];
  const Tensor sent = do_pass(at, StageLaps::Of::forward, at.times.forward_s,
                              [&] { return compute_forward(step, action, own, std::move(received)); });
  if (!at.next) return;
  own.sending = at.next->start_send(signature_of(step.part(action), true),
                                    {.value = sent, .requires_gradient = at.is_answered.value()});
}

Tensor PipelineStages::compute_forward(const StepUnderway& step, const StageAction& action, Underway& own,
                                       StageLink::Crossing received) {
  Stage& at = stage(action.stage);
  const PartPlace& place = step.places[static_cast<size_t>(action.micro_batch)];
  const InSpan span(replica_.device().timeline(), pass_name("forward", action));
  own.tape = std::make_unique<Tape>(replica_.recording());
  const ModelSamples samples = replica_.reader().samples_of(step.part(action), place, at.position.units);
  const Variable x = at.previous ? own.tape->input(std::exchange(received.value, {}), received.requires_gradient)
                                 : own.tape->input(samples.x);
  own.input = x.without_value();
  const std::vector<Variable> outputs = replica_.forward(x, samples, at.position.units);
  if (!at.next) {
    own.roots = replica_.losses_of(outputs, samples.targets, place.rows);
    return {};
  }
  const Variable& output = outputs.front();
  own.output = output.without_value();
  own.output_layout = output.value().layout();
  at.is_answered = output.requires_gradient();
  return output.value();
}

void PipelineStages::backward(StepUnderway& step, const StageAction& action) {
  Stage& at = stage(action.stage);
  Underway own = std::move(step.under_way.extract({action.stage, action.micro_batch}).mapped());
  Tensor gradient;
  if (at.next) {
    if (gets_gradient(at)) gradient = receive(at, *at.next, action.micro_batch).value;
    finish(at, own.sending);
  }
  expect_next(step);
  if (!gets_gradient(at)) return;
  const Tensor sent = do_pass(at, StageLaps::Of::backward, at.times.backward_s,
                              [&] { return compute_backward(step, action, own, std::move(gradient)); });
  if (!sent.defined()) return;
  // At most one gradient is under way: whatever else its receiver waits for, it takes earlier values from here first.
  finish(at, step.gradient);
  step.gradient = at.previous->start_send(signature_of(step.part(action), true), {.value = sent});
}

Tensor PipelineStages::compute_backward(StepUnderway& step, const StageAction& action, Underway& own, Tensor gradient) {
  const Stage& at = stage(action.stage);
  const bool whole = action.kind == StageAction::Kind::backward;
  const InSpan span(replica_.device().timeline(), pass_name(whole ? "backward" : "backward data", action));
  if (at.next) {
    if (planted_ == PlantedFault::boundary_gradient) gradient.fill_zero();
    if (at.next->plain()) gradient = ops::reorder(gradient, own.output_layout);
    own.roots.push_back({.output = own.output, .gradient = std::move(gradient)});
  }
  if (whole) {
    own.tape->backward(std::move(own.roots));
  } else {
    own.tape->backward_data(std::move(own.roots));
    step.under_way[{action.stage, action.micro_batch}].tape = std::move(own.tape);
  }
  if (!at.previous || !own.input.requires_gradient()) return {};
  DPTRAIN_CHECK(own.input.gradient().defined(), "no gradient goes back to the stage before");
  return own.input.gradient();
}

void PipelineStages::backward_weights(StepUnderway& step, const StageAction& action) {
  Stage& at = stage(action.stage);
  if (!gets_gradient(at)) return;
  do_pass(at, StageLaps::Of::backward_weights, at.times.backward_weights_s, [&] {
    const InSpan span(replica_.device().timeline(), pass_name("backward weights", action));
    step.under_way.extract({action.stage, action.micro_batch}).mapped().tape->backward_weights();
    return Tensor();
  });
}

std::vector<StageTimes> PipelineStages::take_times() {
  std::vector<StageTimes> times;
  for (Stage& own : stages_) times.push_back(std::exchange(own.times, {}));
  if (!laps_) return times;
  lapped_steps_ = 0;
  const std::vector<StageLaps::Seconds> of_gpu = laps_->take();
  for (size_t s = 0; s < times.size(); ++s)
    times[s] = {.forward_s = of_gpu[s].forward,
                .backward_s = of_gpu[s].backward,
                .backward_weights_s = of_gpu[s].backward_weights,
                .waiting_s = of_gpu[s].waiting,
                .micro_batches = times[s].micro_batches};
  return times;
}

}  // namespace dptrain::parallel
