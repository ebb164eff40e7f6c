#pragma once

#include <string>

#include "train/strategy_choice.h"

namespace dptrain::train {

/// One line of JSON: `strategy_trials` of summary.json and of a checkpoint's manifest. docs/summary.schema.json is its
/// schema.
std::string choice_json(const StrategyChoice& choice);

/// The choice that choice_json wrote so. Throws 65, naming `where`, where the text is something else.
StrategyChoice parse_choice(const std::string& json, const std::string& where);

}  // namespace dptrain::train
