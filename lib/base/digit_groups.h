#pragma once

#include <string>

namespace dptrain {

/// A number for people: without decimals, with digits in groups of three, "1,234,567".
std::string digit_groups(double value);

}  // namespace dptrain
