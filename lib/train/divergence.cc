#include "train/divergence.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/finite.h"

namespace dptrain::train {
namespace {

std::string place_of(const parallel::StepNumbers& numbers) {
  return fmt::format("step {}, epoch {}", numbers.step, numbers.epoch);
}

[[noreturn]] void report(const std::string& what, const parallel::StepNumbers& numbers) {
  throw Error(ExitCode::diverged,
              Mistake{.where = place_of(numbers),
                      .expected = fmt::format("training diverged: {} no longer finite", what),
                      .got = "",
                      .advice = fmt::format(
                          "the learning rate of this step was {:.3g}; train with a smaller one, or warm up to it",
                          numbers.learning_rate)});
}

}  // namespace

void report_diverged(const parallel::StepNumbers& numbers, const std::vector<int>& ranks, const RankName& name) {
  if (ranks.empty()) report("the loss is", numbers);
  const size_t more = ranks.size() - 1;
  const std::string others = more == 0 ? "" : fmt::format(" and of {} other rank{}", more, more == 1 ? "" : "s");
  report(fmt::format("the loss of {}{} is", name(ranks.front()), others), numbers);
}

void require_finite(const parallel::Score& score, const parallel::StepNumbers& numbers, const RankName& name) {
  if (!std::isfinite(score.mean_loss())) report_diverged(numbers, score.diverged_ranks, name);
}

void require_finite(const std::vector<nn::NamedValues>& weights, const parallel::StepNumbers& numbers) {
  for (const auto& tensor : weights)
    if (!are_finite(tensor.values)) report_diverged_weights(numbers);
}

void report_diverged_weights(const parallel::StepNumbers& numbers) { report("the weights are", numbers); }

void report_difference(const parallel::WeightDifference& difference, const parallel::StepNumbers& numbers,
                       const RankName& name) {
  throw Error(
      ExitCode::diverged,
      Mistake{.where = place_of(numbers),
              .expected = fmt::format("expected {} to be bit-identical on all devices", difference.tensor),
              .got = fmt::format("different bits on {} than on {}", name(difference.rank), name(difference.other)),
              .advice = "a device has computed or stored a wrong value: test the devices, and go on from the last "
                        "checkpoint with --resume"});
}

}  // namespace dptrain::train
