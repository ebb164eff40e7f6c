#pragma once

#include <span>

namespace dptrain {

/// Whether none of them is an infinity or NaN.
bool are_finite(std::span<const float> values);

}  // namespace dptrain
