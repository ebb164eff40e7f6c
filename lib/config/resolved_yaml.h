#pragma once

#include <string>

#include "config/read_record.h"

namespace dptrain {

/// What was read as block-style YAML, in the order read; with `origins` each line ends in a comment with where its
/// value came from.
std::string resolved_yaml(const ReadMapping& root, bool origins);

/// What was read under one key as YAML on one line, `{channels: 6, kernel: 5}`; "" where it has no value.
std::string resolved_value(const ReadKey& record);

}  // namespace dptrain
