#pragma once

#include <string>
#include <vector>

#include "device/device_id.h"

namespace dptrain::app {

// How this binary was built, and with which libraries.

std::string version();
std::string git_commit();
/// Compiler, its version, processor, build type and further flags: "GNU 12.2.0 for x86_64, Release".
std::string built_by();
/// "oneDNN 2.6.3", "CUDA 13.0", ...
std::vector<std::string> parts_present();
/// "NCCL", ...
std::vector<std::string> parts_absent();
/// The present parts that a run on such devices uses.
std::vector<std::string> parts_of_run(const std::vector<DeviceId>& devices);
/// The present parts that devices of this kind compute with, in the versions that are loaded.
std::vector<std::string> parts_that_compute(DeviceKind kind);

}  // namespace dptrain::app
