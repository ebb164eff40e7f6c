#pragma once

#include <string>
#include <vector>

#include "parallel/pipeline_cut.h"
#include "parallel/strategy_context.h"

namespace dptrain::parallel {

/// The names of the stages of the context's model. Allocates no memory for the stages.
std::vector<std::string> unit_names_of(const StrategyContext& context);

/// Measures each stage of the context's model on the first of its devices: forward and backward over made-up samples,
/// as many as in a micro-batch. One stage at a time is on the device, with its input. Throws an error with exit code 71
/// if even one stage doesn't fit.
std::vector<UnitCost> profile_units(const StrategyContext& context);

}  // namespace dptrain::parallel
