#pragma once

#include <string>

namespace dptrain {

/// This machine's name, as `hostname` prints it; "unknown" if it has none.
std::string host_name();

}  // namespace dptrain
