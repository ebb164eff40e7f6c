#include "train/training_warnings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "device/host_machine.h"
#include "train/fault_spec.h"

namespace dptrain::train {
namespace {

/// Why a fault doesn't happen in a training run that goes from after step `from` to step `to`; "" if it does happen.
std::string why_missed(const parallel::InjectedFault& fault, int64_t from, int64_t to) {
  if (fault.step > to) return fmt::format("; but the run has only {} steps", to);
  const bool is_slow = fault.kind == parallel::InjectedFault::Kind::slow;
  if (is_slow && fault.steps == 0) return "";
  const int64_t last = is_slow ? fault.step + fault.steps - 1 : fault.step;
  return last <= from ? fmt::format("; but the run resumes after step {}", from) : "";
}

}  // namespace

std::vector<std::string> training_warnings(const Experiment& experiment, int64_t samples, int64_t step) {
  std::vector<std::string> warnings;
  if (experiment.batch_size > samples)
    warnings.push_back(
        fmt::format("batch_size: {} is more than the {} samples to train on: a step has only these, but settings that "
                    "depend on the batch size, such as lr_rule, use {}",
                    experiment.batch_size, samples, experiment.batch_size));
  const int64_t steps_per_epoch = (samples + experiment.batch_size - 1) / experiment.batch_size;
  const int64_t steps = experiment.steps.value_or(experiment.epochs.value_or(0) * steps_per_epoch);
  const int64_t warmup = experiment.schedule.warmup_of(steps_per_epoch);
  if (warmup > steps && steps > 0)
    warnings.push_back(
        fmt::format("schedule: its warm-up of {} steps is longer than the run's {}: the learning rate ends at {:.3g} "
                    "instead of {:.3g}",
                    warmup, steps, experiment.learning_rate * static_cast<double>(steps) / static_cast<double>(warmup),
                    experiment.learning_rate));
  const auto& milestones = experiment.schedule.milestones;
  const int64_t last_epoch = steps_per_epoch > 0 ? (steps - 1) / steps_per_epoch : 0;  // counted from 0
  if (const auto missed = std::ranges::upper_bound(milestones, last_epoch); missed != milestones.end())
    warnings.push_back(fmt::format(
        "schedule: milestone {} comes after the end of the run, which has {} epoch{}: the rate isn't multiplied there",
        *missed, last_epoch + 1, last_epoch > 0 ? "s" : ""));
  if (!milestones.empty() && milestones.front() * steps_per_epoch < std::min(warmup, steps))
    warnings.push_back(
        fmt::format("schedule: milestone {} comes within the warm-up of {} steps: the rate is multiplied before it has "
                    "reached its full size",
                    milestones.front(), warmup));
  // A training run in epochs was already checked when the configuration was read.
  const int64_t of_epochs = experiment.eval_every * steps_per_epoch;
  if (experiment.validation.samples > 0 && experiment.steps && of_epochs > *experiment.steps + steps_per_epoch - 1)
    warnings.push_back(
        fmt::format("validation: the {} steps end before epoch {}, the first that is evaluated: there is "
                    "no best epoch; write a smaller eval_every, or more steps",
                    *experiment.steps, experiment.eval_every));
  const auto& groups = experiment.parameter_groups;
  // Factors of 0 and 1 make sense with any weight decay, and stay in place when the weight decay is varied.
  const auto is_in_vain = [](const models::ParameterGroup& group) {
    const double factor = group.weight_decay.value_or(1);
    return factor != 0 && factor != 1;
  };
  if (experiment.optimizer.weight_decay == 0 && std::ranges::any_of(groups, is_in_vain))
    warnings.push_back(
        fmt::format("parameter_groups: a weight_decay_factor multiplies the weight decay of {}, which is 0; write "
                    "optimizer: {{name: {}, weight_decay: 5.0e-4}} for instance",
                    experiment.optimizer.name, experiment.optimizer.name));
  int threads = 0;  // the most threads of any CPU worker
  for (size_t rank = 0; rank < experiment.devices.size(); ++rank)
    if (experiment.devices[rank].kind == DeviceKind::cpu) threads = std::max(threads, experiment.threads[rank]);
  if (threads > usable_cores())
    warnings.push_back(
        fmt::format("threads: a CPU worker has {} threads, more than the {} of this process: they wait for each other "
                    "in every operator; leave threads out, or write threads: {}",
                    threads, counted(usable_cores(), "core"), usable_cores()));
  for (const parallel::InjectedFault& fault : experiment.faults)
    warnings.push_back(fmt::format("--fault rehearses a fault: {}{}",
                                   fault_sentence(fault, experiment.rank_name(fault.rank)),
                                   why_missed(fault, step, steps)));
  return warnings;
}

}  // namespace dptrain::train
