#include "parallel/shard_team.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "device/cpu_device.h"
#include "ops/approach.h"

namespace dptrain::parallel {
namespace {

int64_t flat_elements(const nn::Model& model) {
  return model.gradients().elements() + model.running_states().elements();
}

/// How many shards a device computes at a time.
int at_a_time(const Device& device, int shards) {
  return device.kind() == DeviceKind::cpu ? std::min(device.threads(), shards) : 1;
}

/// Appends the results of `more`.
void append(StepResults& results, StepResults more) {
  results.outputs.resize(std::max(results.outputs.size(), more.outputs.size()));
  for (size_t k = 0; k < more.outputs.size(); ++k) {
    OutputResults& all = results.outputs[k];
    std::ranges::move(more.outputs[k].losses, std::back_inserter(all.losses));
    all.correct += more.outputs[k].correct;
    all.counted += more.outputs[k].counted;
  }
  results.samples += more.samples;
}

}  // namespace

ShardTeam::ShardTeam(Replica& own, const ReplicaSpec& spec)
    : own_(own),
      first_shard_(spec.shards.begin),
      first_statistics_(spec.first_statistics),
      sum_(own.device(), flat_elements(own.model()), spec.shards.size()) {
  const int shards = spec.shards.size(), workers = at_a_time(own.device(), shards);
  // If the device's own operators would use several threads, each shard gets a device of one core.
  if (own.device().kind() == DeviceKind::cpu && own.device().threads() > 1)
    for (int worker = 0; worker < workers; ++worker) cores_.push_back(CpuDevice::core_of(own.device()));
  for (int shard = 0; shard < shards; ++shard) {
    Device& device = cores_.empty() ? own.device() : *cores_[static_cast<size_t>(shard % workers)];
    shards_.push_back(std::make_unique<Replica>(device, spec, own));
  }
  if (cores_.empty()) return;
  threads_ = std::make_unique<WorkerThreads>(workers);
  threads_->run([this](int worker) { cores_[static_cast<size_t>(worker)]->enter_thread(); });
}

ShardTeam::~ShardTeam() = default;

StepParts ShardTeam::parts_of(int shard, const StepParts& parts) const {
  const auto micro_batches = static_cast<std::ptrdiff_t>(parts.size() / shards_.size());
  const auto first = parts.begin() + shard * micro_batches;
  return {first, first + micro_batches};
}

void ShardTeam::begin_step(const StepParts& parts, const Step& step) {
  for (int shard = 0; shard < shards(); ++shard)
    shards_[static_cast<size_t>(shard)]->begin_step(parts_of(shard, parts), step.numbers, step.totals);
}

void ShardTeam::end_step() {
  for (const auto& shard : shards_) shard->end_step();
}

int64_t ShardTeam::generation() const {
  int64_t all = 0;
  for (const auto& shard : shards_) all += shard->exchange().generation();
  return all;
}

void ShardTeam::forward_backward(const StepParts& parts, const Step& step, const Replica::UnusedHook& unused) {
  if (!threads_) {
    for (int shard = 0; shard < shards(); ++shard) compute(shard, parts_of(shard, parts), step, unused);
  } else {
    std::vector<std::exception_ptr> failures(static_cast<size_t>(threads_->size()));
    threads_->run([&](int worker) {
      try {
        for (int shard = worker; shard < shards(); shard += threads_->size())
          compute(shard, parts_of(shard, parts), step, unused);
      } catch (...) {
        failures[static_cast<size_t>(worker)] = std::current_exception();
        sum_.give_up();
      }
    });
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }
  const nn::Model& model = own_.model();
  const Tensor sum = sum_.take();
  model.gradients().copy_from(sum.window(0, model.gradients().shape(), Layout::plain));
  if (model.running_states().elements() > 0)
    model.running_states().copy_from(
        sum.window(model.gradients().elements(), model.running_states().shape(), Layout::plain));
}

void ShardTeam::compute(int shard, const StepParts& parts, const Step& step, const Replica::UnusedHook& unused) {
  Replica& replica = *shards_[static_cast<size_t>(shard)];
  nn::Model& model = replica.model();
  Tensor buffer = sum_.begin(shard);
  if (!buffer.defined()) return;  // another thread has failed
  const Tensor flat = buffer.seen_from(replica.device());
  model.bind_gradients(flat.window(0, own_.model().gradients().shape(), Layout::plain));
  const Tensor& states = model.running_states();
  if (states.elements() > 0) states.copy_from(own_.model().running_states());
  replica.forward_backward(parts, {}, unused);
  replica.exchange().publish();
  if (states.elements() > 0) {
    const Tensor weighted = flat.window(model.gradients().elements(), states.shape(), Layout::plain);
    weighted.fill_zero();
    ops::approach(weighted, states, share_of(shard, parts, step.totals));
  }
  sum_.add(shard, std::move(buffer), replica.device());
}

float ShardTeam::share_of(int shard, const StepParts& parts, const StepTotals& totals) const {
  if (first_statistics_) return first_shard_ + shard == 0 ? 1.0F : 0.0F;
  int64_t samples = 0;
  for (const BatchPart* part : parts) samples += part->samples();
  return static_cast<float>(static_cast<double>(samples) / static_cast<double>(totals.samples));
}

StepResults ShardTeam::take_results() {
  StepResults results;
  for (const auto& shard : shards_) append(results, shard->exchange().take_oldest());
  return results;
}

}  // namespace dptrain::parallel
