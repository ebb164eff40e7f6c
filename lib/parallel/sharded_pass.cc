#include "parallel/sharded_pass.h"

#include <algorithm>
#include <utility>

namespace dptrain::parallel {

ShardedPass::ShardedPass(ShardedWeights& weights, ShardedGradients& gradients, const Options& options)
    : weights_(weights), gradients_(gradients), options_(options) {}

void ShardedPass::begin(bool is_last) {
  is_last_ = is_last;
  goes_back_ = true;
  arrive();
}

void ShardedPass::begin_evaluation(int64_t samples) {
  goes_back_ = false;
  begin_step(evaluated_.insert(samples).second);
  arrive();
}

// A tied parameter is held wherever it is used, and its gradient is complete only at the end.
void ShardedPass::enter_forward(const Parameter& parameter) {
  const int unit = weights_.unit_of(parameter);
  if (!is_tied(unit)) advance_to(unit);
}

void ShardedPass::enter_backward(const Parameter& parameter) {
  const int unit = weights_.unit_of(parameter);
  if (!is_tied(unit)) advance_to(2 * count() - 1 - unit);
}

void ShardedPass::end() {
  advance_to((goes_back_ ? 2 : 1) * count() - 1);
  for (int unit = count() - 1; goes_back_ && unit >= 0; --unit)
    if (is_tied(unit) || unit == 0) sum(unit);
  finish_sum();
  gradients_.await_copies();
  for (int unit = 0; unit < count(); ++unit) weights_.release(unit);
  visit_ = -1;
}

bool ShardedPass::is_needed(int unit) const {
  if (is_tied(unit)) return true;
  const int last = count() - 1;
  // The second unit of the backward pass is also the one that forward has just left, so it is kept. With two units,
  // none is gathered twice.
  if (visit_ < last) return unit == visit_ || unit == visit_ + 1 || (!options_.reshard_after_forward && unit < visit_);
  const int at = unit_at(visit_);
  return unit == at || unit == at - 1 || (!options_.reshard_after_forward && unit < at);
}

void ShardedPass::advance_to(int visit) {
  while (visit_ < visit) arrive();
}

void ShardedPass::arrive() {
  ++visit_;
  const int at = unit_at(visit_);
  const bool goes_back = visit_ > count();
  // The unit that the backward pass has just left.
  if (goes_back && !is_tied(at + 1)) sum(at + 1);
  for (int unit = 0; unit < count(); ++unit)
    if (!is_needed(unit) && weights_.holds(unit)) weights_.release(unit);
  // The unit that is needed first is gathered first.
  const bool forward = visit_ < count();
  for (int i = 0; i < count(); ++i) {
    const int unit = forward ? i : count() - 1 - i;
    if (is_needed(unit) && !weights_.holds(unit)) gather(unit);
  }
}

void ShardedPass::gather(int unit) {
  weights_.gather(unit);
  if (!apart_) return;
  weights_.await(unit);
  options_.apart();
}

void ShardedPass::sum(int unit) {
  if (!is_last_) return;
  finish_sum();
  gradients_.start(unit);
  under_way_ = unit;
  if (!apart_) return;
  gradients_.await(unit);
  options_.apart();
}

void ShardedPass::finish_sum() {
  if (under_way_ < 0) return;
  gradients_.finish(std::exchange(under_way_, -1));
  if (!apart_ || !gradients_.has_copies()) return;
  gradients_.await_copies();
  options_.apart();
}

}  // namespace dptrain::parallel
