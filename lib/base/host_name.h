#pragma once

#include <string>

namespace dptrain {

/// The name of this machine among others, as `hostname` prints it; "unknown" where it has none.
std::string host_name();

}  // namespace dptrain
