#pragma once

#include <vector>

namespace dptrain {

/// Of at least one value; of an even number of them the mean of the two in the middle.
double median(std::vector<double> values);

}  // namespace dptrain
