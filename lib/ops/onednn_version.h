#pragma once

#include <string>

namespace dptrain::ops {

/// "2.6.3", of the library that is loaded.
std::string onednn_version();

}  // namespace dptrain::ops
