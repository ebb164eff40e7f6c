#pragma once

#include <string>

#include "config/read_record.h"

namespace dptrain {

/// What was read as block-style YAML, in the order read; with `origins` each line ends in a comment with where its
/// value came from.
std::string resolved_yaml(const ReadMapping& root, bool origins);

}  // namespace dptrain
