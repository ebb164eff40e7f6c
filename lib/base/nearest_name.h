#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dptrain {

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`: Damerau and Levenshtein's distance.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate at most two edits (a third of the name's length, if less) from `name`, upper and lower case alike; or,
/// unless one is a single edit away, the first that begins with `name`, of four letters or more; or one that `name`
/// abbreviates, "lr" for "learning_rate"; or "" where there is none.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

/// "did you mean 'batch_size'?", or, where nothing is near, "known are: a, b, c".
std::string suggestion(std::string_view name, std::span<const std::string> candidates);

}  // namespace dptrain
