#pragma once

#include <string>
#include <vector>

namespace dptrain::app {

// What this binary was built as and with.

std::string version();
std::string git_commit();
/// "oneDNN 2.6.3", "CUDA 13.0", ...
std::vector<std::string> parts_present();
/// "NCCL", ...
std::vector<std::string> parts_absent();

}  // namespace dptrain::app
