#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace dptrain {

/// Finds a line of the file that begins with `name`, and returns the number behind it; 0 if there is none. Linux writes
/// files in /proc and control groups this way.
int64_t number_behind(std::string_view name, const std::filesystem::path& file);

}  // namespace dptrain
