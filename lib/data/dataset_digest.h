#pragma once

#include <string>

#include "data/dataset.h"

namespace dptrain {

/// SHA-256 of all that a data set's samples follow from, as hex digits. Equal data sets have equal digests, whether
/// they were read from plain or gzip files. For files that were read before, the digest is made from what was kept of
/// them (see kept_digest.h), without reading them again.
std::string digest_of(const Dataset& dataset);

}  // namespace dptrain
