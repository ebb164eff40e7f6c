#pragma once

#include <filesystem>

namespace dptrain {

/// share/dptrain beside the folder of the running program: where `cmake --install` puts configs/ and datasets/,
/// wherever the installation was moved to. The folder need not exist.
std::filesystem::path installed_data();

}  // namespace dptrain
