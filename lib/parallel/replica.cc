#include "parallel/replica.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "autograd/cross_entropy.h"
#include "ops/cross_entropy.h"
#include "parallel/deferred_update.h"
#include "parallel/shard_team.h"
#include "parallel/sharded_replica.h"

namespace dptrain::parallel {

Tape::Mode recording_of(Recompute recompute, const Device& device) {
  const bool again =
      recompute == Recompute::automatic ? device.kind() == DeviceKind::cpu : recompute == Recompute::batch_norm;
  return again ? Tape::Mode::recompute : Tape::Mode::record;
}

KeptResults KeptResults::of(const StepParts& parts) {
  KeptResults kept;
  for (const BatchPart* part : parts) {
    const std::vector<int64_t> counted = counted_labels(*part);
    kept.outputs.resize(counted.size());
    for (size_t k = 0; k < counted.size(); ++k) {
      kept.outputs[k].rows += static_cast<int64_t>(part->targets[k].size());
      kept.outputs[k].counted += counted[k];
    }
    kept.samples += part->samples();
  }
  return kept;
}

Replica::Replica(Device& device, const ReplicaSpec& spec)
    : device_(device),
      recording_(recording_of(spec.recompute, device)),
      seed_(spec.initialization.seed),
      output_widths_(spec.input.output_widths()),
      precision_(spec.precision),
      model_(spec.model.build({.device = device, .convolution = spec.convolution, .plain_weights = spec.mixed_devices},
                              spec.input)),
      clip_norm_(spec.clip_norm),
      label_smoothing_(spec.label_smoothing),
      observer_(spec.observer),
      exchange_(device, spec.steps_in_flight),
      reader_(device, *model_, exchange_, dtype()),
      recorder_(device) {
  clock_.show_on(device.timeline(), device.kind() == DeviceKind::cpu && device.computes());
  if (observer_ == nullptr) return;
  model_->watch_stages([this](int stage, const Tensor& output, const nn::ForwardContext& context) {
    observer_->on_stage(*model_, stage, output, context.sample_ids);
  });
}

Replica::Replica(Device& device, const ReplicaSpec& spec, const ReplicaDuties& duties) : Replica(device, spec) {
  if (duties.places) model_->place(device, spec.initialization, compute_dtype(spec.precision), spec.stages);
  // Shards add up their gradients in one buffer, and norms are taken over all gradients.
  if (duties.gradients_held_by && device.kind() == DeviceKind::cpu && spec.shards.size() == 0 && !clip_norm_ &&
      !spec.optimizer.measures)
    model_->hold_gradients_by_runs(plan_buckets(*model_, *duties.gradients_held_by));
  if (duties.updates) {
    optimizer_ = spec.optimizer.make(optim::FlatWeights::of(*model_));
    norms_ = {spec.optimizer, device, std::ssize(model_->parameters())};
  }
  if (precision_ == Precision::fp16) loss_scale_.emplace(device);
  if (duties.measures_squares) exchange_.measure_squares();
  measures_sums_ = duties.measures_sums;
  if (duties.averages && spec.average_decay) average_.emplace(model_->weights(), *spec.average_decay);
  if (spec.shards.size() > 0) shards_ = std::make_unique<ShardTeam>(*this, spec);
}

Replica::Replica(Device& device, const ReplicaSpec& spec, const Replica& lender) : Replica(device, spec) {
  model_->place_beside(device, lender.model());
  if (lender.loss_scale_) lent_factor_ = lender.loss_factor().seen_from(device);
}

Replica::~Replica() = default;

void Replica::suffer(const std::vector<InjectedFault>& faults, int world_rank) {
  faults_ = RankFaults(faults, world_rank, *model_, [this](const Parameter& of) { return own_weight(of); });
  if (faults_.may_delay()) exchange_.allow_delays();
}

Tensor Replica::own_weight(const Parameter& parameter) const {
  return sharded_ ? sharded_->weights().own_of(parameter) : parameter.value();
}

std::vector<Device*> Replica::part_devices() {
  if (!shards_) return {&device_};
  std::vector<Device*> devices;
  for (int shard = 0; shard < shards_->shards(); ++shard) devices.push_back(&shards_->device(shard));
  return devices;
}

std::vector<StepResults> Replica::take_results(bool all) {
  std::vector<StepResults> results = exchange_.take(all);
  if (shards_)
    for (StepResults& done : results) {
      const auto squares = done.squares;
      done = shards_->take_results();
      done.squares = squares;
    }
  return results;
}

void Replica::begin_step(const StepParts& parts, const StepNumbers& numbers, const StepTotals& totals,
                         const KeptResults& kept) {
  faults_.begin_step(numbers.step, device_);
  numbers_ = numbers;
  totals_ = totals;
  StepExchange::Values values{.learning_rate = numbers.learning_rate,
                              .epoch = numbers.epoch,
                              .step = numbers.step,
                              .delay_s = faults_.delay_s(numbers.step),
                              .counts = totals.counts,
                              .outputs = kept.outputs,
                              .samples = kept.samples};
  if (!has_shards()) {
    for (const BatchPart* part : parts) {
      values.sample_ids.insert(values.sample_ids.end(), part->sample_ids.begin(), part->sample_ids.end());
      values.numbers += reader_.count_numbers(*part);
    }
    values.write_numbers = [this, &parts](int32_t* out) {
      for (const BatchPart* part : parts) out = reader_.write_numbers(*part, out);
    };
  }
  exchange_.begin(values);
  if (shards_) shards_->begin_step(parts, {.numbers = numbers_, .totals = totals_});
}

void Replica::end_step() {
  exchange_.end();
  if (shards_) shards_->end_step();
  if (!faults_.end_step(numbers_.step, *model_, [this](const Parameter& of) { return own_weight(of); })) return;
  if (sharded_)
    sharded_->weights().refresh_copies();
  else
    model_->refresh_copies();
}

StepRecorder::How Replica::run_section(StepRecorder::Section section, const StepParts& parts,
                                       const StepRecorder::Give& give, StepRecorder::Signature signature) {
  if (!records_steps()) return recorder_.do_now(give);
  const StepRecorder::Signature of_step = step_signature(parts);
  signature.insert(signature.end(), of_step.begin(), of_step.end());
  const auto how = recorder_.run(section, signature, give);
  if (section == StepRecorder::Section::passes && how != StepRecorder::How::done) count_graph_step();
  return how;
}

StepRecorder::Signature Replica::step_signature(const StepParts& parts) const {
  StepRecorder::Signature signature;
  for (const BatchPart* samples : parts) {
    signature.push_back(samples->samples());
    for (const auto& labels : samples->targets) signature.push_back(static_cast<int64_t>(labels.size()));
  }
  signature.push_back(exchange_.generation());
  // Host values that kernels get: the factor on the gradients and, by the samples of all ranks, the weights of shards'
  // running statistics.
  signature.push_back(std::bit_cast<int64_t>(totals_.gradient_factor));
  if (shards_) signature.insert(signature.end(), {shards_->generation(), totals_.samples});
  // Recorded work differs with and without timeline marks.
  signature.push_back(device_.timeline() != nullptr ? 1 : 0);
  return signature;
}

std::vector<Variable> Replica::forward(const Variable& x, const ModelSamples& samples, const nn::StageRange& stages) {
  return model_->outputs(x,
                         {.tape = x.tape(),
                          .training = true,
                          .seed = seed_,
                          .epoch = exchange_.epoch(),
                          .sample_ids = samples.ids,
                          .text = samples.text,
                          .statistics = statistics_},
                         stages);
}

std::vector<Tape::Root> Replica::losses_of(const std::vector<Variable>& outputs, const std::vector<Tensor>& targets,
                                           const std::vector<int64_t>& rows) {
  std::vector<Tape::Root> roots;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Variable losses = autograd::cross_entropy(outputs[k], targets[k],
                                                    {.scale = totals_.gradient_factor,
                                                     .count = exchange_.count(k),
                                                     .factor = loss_factor(),
                                                     .label_smoothing = label_smoothing_});
    exchange_.keep(k, rows[k], losses.value(), ops::correct_samples(outputs[k].value(), targets[k]));
    roots.push_back({.output = losses, .gradient = losses.value()});
  }
  return roots;
}

void Replica::forward_backward(const StepParts& parts, const GradientReadyHook& ready, const UnusedHook& unused) {
  exchange_.stamp(StepExchange::Point::begun);
  exchange_.begin_squares(loss_factor());
  if (has_shards()) {
    add_up_shards(parts, ready, unused);
    exchange_.stamp(StepExchange::Point::computed);
    return;
  }
  const bool has_pass = this->has_pass();
  std::vector<bool> is_ready(model_->parameters().size());
  const GradientReadyHook complete = [&](Parameter& parameter) {
    is_ready[static_cast<size_t>(parameter.index())] = true;
    // A pass measures whole units.
    if (!has_pass) exchange_.add_squares(StepExchange::Squares::own, parameter.gradient());
    if (ready) ready(parameter);
  };
  PartPlace place{.rows = std::vector<int64_t>(parts.front()->targets.size())};
  bool is_first = true;
  for (size_t p = 0; p < parts.size(); ++p) {
    const bool is_last = p + 1 == parts.size();
    if (has_pass) sharded_->pass().begin(is_last);
    if (parts[p]->samples() > 0 || shares_statistics()) {
      add_gradients(*parts[p], place, is_first, is_last ? complete : GradientReadyHook());
      is_first = false;
    }
    // After this point a GPU only waits for communication that nothing hides.
    if (has_pass && is_last) exchange_.stamp(StepExchange::Point::computed);
    if (has_pass) sharded_->pass().end();
    reader_.go_past(place, *parts[p]);
  }
  if (has_pass) return;
  if (is_first) begin_gradients();
  if (unused && place.sample > 0) report_unused(unused);
  complete_gradients();
  // From the last parameter to the first, as the backward pass completes them.
  for (auto at = model_->parameters().rbegin(); at != model_->parameters().rend(); ++at)
    if (!is_ready[static_cast<size_t>((*at)->index())]) complete(**at);
  exchange_.stamp(StepExchange::Point::computed);
}

void Replica::add_up_shards(const StepParts& parts, const GradientReadyHook& ready, const UnusedHook& unused) {
  shards_->forward_backward(parts, {.numbers = numbers_, .totals = totals_}, unused);
  exchange_.add_squares(StepExchange::Squares::own, model_->own_gradients());
  for (auto at = model_->parameters().rbegin(); ready && at != model_->parameters().rend(); ++at) ready(**at);
}

void Replica::report_unused(const UnusedHook& unused) const {
  std::vector<const Parameter*> without;
  for (const Parameter* parameter : model_->parameters())
    if (!parameter->has_gradient()) without.push_back(parameter);
  if (!without.empty()) unused(without);
}

void Replica::complete_gradients() {
  for (Parameter* parameter : model_->parameters()) {
    if (parameter->has_gradient()) continue;
    parameter->gradient_to_write().fill_zero();
    parameter->mark_gradient();
  }
}

void Replica::add_gradients(const BatchPart& part, const PartPlace& place, bool is_first,
                            const GradientReadyHook& ready) {
  Tape tape(recording_);
  if (deferred_ != nullptr) tape.call_before_use([this](const Parameter& used) { deferred_->require(used); });
  if (has_pass()) {
    tape.call_before_use([this](const Parameter& used) { sharded_->pass().enter_forward(used); });
    tape.call_before_backward([this](const Parameter& used) { sharded_->pass().enter_backward(used); });
  }
  std::optional<InSpan> span(std::in_place, device_.timeline(), "forward");
  const ModelSamples samples = reader_.samples_of(part, place);
  const std::vector<Tape::Root> roots = losses_of(forward(tape, samples), samples.targets, place.rows);
  span.reset();
  if (is_first) begin_gradients();
  span.emplace(device_.timeline(), "backward");
  tape.backward(roots, ready);
}

void Replica::deal_out_by(std::unique_ptr<ShardedReplica> sharded) { sharded_ = std::move(sharded); }

bool Replica::has_pass() const { return sharded_ && sharded_->pass().is_active(); }

void Replica::begin_gradients() {
  if (deferred_ != nullptr) deferred_->finish();
  model_->forget_gradients();
}

}  // namespace dptrain::parallel
