#pragma once

#include "parallel/strategy_spec.h"

namespace dptrain::parallel {

// Readers of each strategy's own options, each in a file of its own. The number of devices has already been checked
// against the table of strategies.

StrategySpec read_data_parallel(ConfigReader& options, const StrategyRequest& request);
StrategySpec read_ddp(ConfigReader& options, const StrategyRequest& request);
StrategySpec read_fsdp(ConfigReader& options, const StrategyRequest& request);
StrategySpec read_kvstore(ConfigReader& options, const StrategyRequest& request);
StrategySpec read_local_sgd(ConfigReader& options, const StrategyRequest& request);
StrategySpec read_model_parallel(ConfigReader& options, const StrategyRequest& request);
StrategySpec read_hybrid(ConfigReader& options, const StrategyRequest& request);

/// Reads the option `gradient_noise` of a strategy that can measure it. If it is to, notes that in the spec, with what
/// it refuses then.
void read_gradient_noise(ConfigReader& options, const StrategyRequest& request, StrategySpec& spec);

/// Upper limit of options that are sizes in MiB: 1 TiB.
inline constexpr double kMostMb = 1 << 20;
/// Upper limit of options that count steps.
inline constexpr int64_t kMostSteps = 1'000'000'000;

}  // namespace dptrain::parallel
