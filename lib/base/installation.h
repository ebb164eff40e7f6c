#pragma once

#include <filesystem>

namespace dptrain {

/// The folder share/dptrain beside the folder of the running program. `cmake --install` puts configs/ and datasets/
/// there, wherever the installation is moved later. The folder need not exist.
std::filesystem::path installed_data();

}  // namespace dptrain
