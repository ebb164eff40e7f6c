#pragma once

#include "parallel/strategy.h"

namespace dptrain::parallel {

/// Reads the options of `model_parallel`: stages, micro_batches, schedule.
StrategySpec read_model_parallel(ConfigReader& options, const StrategyRequest& request);
/// Reads those of `hybrid`: model_parallel, the devices of a replica, and the same.
StrategySpec read_hybrid(ConfigReader& options, const StrategyRequest& request);

}  // namespace dptrain::parallel
