#pragma once

#include <functional>
#include <string>

#include "nn/named_values.h"
#include "parallel/score.h"
#include "parallel/step_numbers.h"
#include "parallel/weight_digests.h"

namespace dptrain::train {

// A training run that diverges ends. Each function here throws 79, naming step and epoch.

/// Returns the name of a rank of the world in a sentence: "rank 1 (cpu:1)".
using RankName = std::function<std::string(int rank)>;

/// Reports that the loss of this step isn't finite. `ranks`: those whose loss isn't finite, if not all of them.
[[noreturn]] void report_diverged(const parallel::StepNumbers& numbers, const std::vector<int>& ranks = {},
                                  const RankName& name = {});
/// Throws if a number isn't finite.
void require_finite(const parallel::Score& score, const parallel::StepNumbers& numbers, const RankName& name = {});
void require_finite(const std::vector<nn::NamedValues>& weights, const parallel::StepNumbers& numbers);
/// Reports that the weights aren't finite.
[[noreturn]] void report_diverged_weights(const parallel::StepNumbers& numbers);
/// Reports that two devices have different weights after the same updates.
[[noreturn]] void report_difference(const parallel::WeightDifference& difference, const parallel::StepNumbers& numbers,
                                    const RankName& name);

}  // namespace dptrain::train
