#pragma once

#include <string>
#include <vector>

#include "parallel/pipeline_cut.h"
#include "parallel/strategy.h"

namespace dptrain::parallel {

/// The names of the stages of the context's model. Nothing is allocated for them.
std::vector<std::string> unit_names_of(const StrategyContext& context);

/// Measures each stage of the context's model on the first of its devices: forward and backward over made-up samples,
/// as many as a micro-batch has. One stage is on the device at a time, with what goes into it. Throws 71 where not even
/// that fits.
std::vector<UnitCost> profile_units(const StrategyContext& context);

}  // namespace dptrain::parallel
