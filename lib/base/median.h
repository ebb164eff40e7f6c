#pragma once

#include <vector>

namespace dptrain {

/// The median of at least one value. For an even number of values it is the mean of the two in the middle.
double median(std::vector<double> values);

}  // namespace dptrain
