#pragma once

#include <functional>
#include <string>

#include "parallel/strategy.h"

namespace dptrain::train {

// Training that diverged ends: each throws 79, naming step and epoch.

/// How a sentence calls a rank of the world: "rank 1 (cpu:1)".
using RankName = std::function<std::string(int rank)>;

/// The loss of this step isn't finite; on these ranks, where it isn't on all.
[[noreturn]] void report_diverged(const parallel::StepNumbers& numbers, const std::vector<int>& ranks = {},
                                  const RankName& name = {});
/// Where a number is no longer finite.
void require_finite(const parallel::Score& score, const parallel::StepNumbers& numbers, const RankName& name = {});
void require_finite(const std::vector<nn::NamedValues>& weights, const parallel::StepNumbers& numbers);
/// The weights aren't finite.
[[noreturn]] void report_diverged_weights(const parallel::StepNumbers& numbers);
/// Two devices have made other weights of the same updates.
[[noreturn]] void report_difference(const parallel::WeightDifference& difference, const parallel::StepNumbers& numbers,
                                    const RankName& name);

}  // namespace dptrain::train
