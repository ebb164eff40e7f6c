#pragma once

#include "parallel/strategy.h"

namespace dptrain::train {

// Training that diverged ends: each throws 79, naming step and epoch, where a number is no longer finite.

/// The loss of this step isn't.
[[noreturn]] void report_diverged(const parallel::StepNumbers& numbers);
void require_finite(const parallel::Score& score, const parallel::StepNumbers& numbers);
void require_finite(const std::vector<nn::NamedValues>& weights, const parallel::StepNumbers& numbers);

}  // namespace dptrain::train
