#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dptrain {

/// "1 epoch", "10 epochs"
std::string counted(int64_t count, std::string_view what);

}  // namespace dptrain
