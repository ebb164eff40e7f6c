#pragma once

#include <string>

#include "config/read_record.h"

namespace dptrain {

/// The values that were read, as block-style YAML in the order read. With `origins`, a comment on each line says where
/// its value came from.
std::string resolved_yaml(const ReadMapping& root, bool origins);

/// The value read under one key, as YAML on one line: `{channels: 6, kernel: 5}`; "" if it has no value.
std::string resolved_value(const ReadKey& record);

}  // namespace dptrain
