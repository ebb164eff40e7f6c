#pragma once

#include <string>
#include <string_view>

#include "config/read_record.h"

namespace dptrain {

/// The JSON Schema (draft 2020-12) of the mappings that a describing pass has recorded; two-space indentation.
std::string config_schema(std::string_view title, const ReadMapping& root);

}  // namespace dptrain
