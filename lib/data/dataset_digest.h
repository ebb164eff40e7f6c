#pragma once

#include <string>

#include "data/dataset.h"

namespace dptrain {

/// SHA-256 of all that a data set's samples follow from, as hex digits: of equal ones it is equal wherever they were
/// read from, and in whatever form.
std::string digest_of(const Dataset& dataset);

}  // namespace dptrain
