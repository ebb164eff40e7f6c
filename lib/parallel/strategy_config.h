#pragma once

#include "parallel/strategy.h"

namespace dptrain::parallel {

// Each strategy's own options, read in a file of its own. A number of devices that the table of strategies allows has
// been checked elsewhere.

StrategySpec read_data_parallel(ConfigReader& options, const StrategyRequest& request);
StrategySpec read_ddp(ConfigReader& options, const StrategyRequest& request);
StrategySpec read_fsdp(ConfigReader& options, const StrategyRequest& request);
StrategySpec read_kvstore(ConfigReader& options, const StrategyRequest& request);
StrategySpec read_local_sgd(ConfigReader& options, const StrategyRequest& request);
StrategySpec read_model_parallel(ConfigReader& options, const StrategyRequest& request);
StrategySpec read_hybrid(ConfigReader& options, const StrategyRequest& request);

/// Upper limit of options that are sizes in MiB: one TiB.
inline constexpr double kMostMb = 1 << 20;
/// Upper limit of options that are numbers of steps.
inline constexpr int64_t kMostSteps = 1'000'000'000;

}  // namespace dptrain::parallel
