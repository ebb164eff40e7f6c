#pragma once

#include <span>

namespace dptrain {

/// Whether no value is an infinity or NaN.
bool are_finite(std::span<const float> values);

}  // namespace dptrain
