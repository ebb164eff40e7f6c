#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace dptrain {

/// The number behind a name that a line of a file begins with, as those in which Linux tells of itself; 0 where there
/// is none.
int64_t number_behind(std::string_view name, const std::filesystem::path& file);

}  // namespace dptrain
