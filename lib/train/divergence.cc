#include "train/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace dptrain::train {
namespace {

[[noreturn]] void report(const char* what, const parallel::StepNumbers& numbers) {
  throw Error(ExitCode::diverged,
              Mistake{.where = fmt::format("step {}, epoch {}", numbers.step, numbers.epoch),
                      .expected = fmt::format("training diverged: {} no longer finite", what),
                      .got = "",
                      .advice = fmt::format("use a learning rate below {}", numbers.learning_rate)});
}

}  // namespace

void report_diverged(const parallel::StepNumbers& numbers) { report("the loss is", numbers); }

void require_finite(const parallel::Score& score, const parallel::StepNumbers& numbers) {
  if (!std::isfinite(score.mean_loss())) report_diverged(numbers);
}

void require_finite(const std::vector<nn::NamedValues>& weights, const parallel::StepNumbers& numbers) {
  for (const auto& tensor : weights)
    if (!std::ranges::all_of(tensor.values, [](float value) { return std::isfinite(value); }))
      report("the weights are", numbers);
}

}  // namespace dptrain::train
