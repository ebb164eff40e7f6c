#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dptrain {

/// The number of edits (insert, delete, replace, swap of neighbors) that turn `a` into `b`: the Damerau-Levenshtein
/// distance.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate that `name` most likely means, or "". Case doesn't matter. In order of precedence:
///   - the nearest candidate at most one edit away,
///   - for a `name` of four letters or more, the first candidate that begins with it,
///   - the nearest candidate at most two edits away (a third of the name's length, if less),
///   - a candidate that `name` abbreviates: "lr" for "learning_rate".
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

/// Advice for a wrong name: "did you mean 'batch_size'?", or "choose one of: a, b, c" if no name is near.
std::string suggestion(std::string_view name, std::span<const std::string> candidates);

}  // namespace dptrain
