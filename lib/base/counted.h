#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dptrain {

/// The count with its noun: "1 epoch", "10 epochs".
std::string counted(int64_t count, std::string_view what);

}  // namespace dptrain
