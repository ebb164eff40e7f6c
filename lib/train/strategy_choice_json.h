#pragma once

#include <string>

#include "train/strategy_choice.h"

namespace dptrain::train {

/// A choice as one line of JSON: `strategy_trials` in summary.json and in a checkpoint's manifest.
/// docs/summary.schema.json is its schema.
std::string choice_json(const StrategyChoice& choice);

/// Parses the text of choice_json. Throws 65, naming `where`, if the text is something else.
StrategyChoice parse_choice(const std::string& json, const std::string& where);

}  // namespace dptrain::train
