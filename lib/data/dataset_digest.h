#pragma once

#include <string>

#include "data/dataset.h"

namespace dptrain {

/// SHA-256 of all that a data set's samples follow from, as hex digits: of equal ones it is equal wherever they were
/// read from, plain or gzip. Of files that were read before it is put together from what was kept of them (see
/// kept_digest.h), without reading them again; else they are read.
std::string digest_of(const Dataset& dataset);

}  // namespace dptrain
