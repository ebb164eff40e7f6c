#pragma once

#include <string>
#include <vector>

#include "device/device_id.h"

namespace dptrain::app {

// What this binary was built as and with.

std::string version();
std::string git_commit();
/// Compiler, its version, processor, kind of build and further flags: "GNU 12.2.0 for x86_64, Release".
std::string built_by();
/// "oneDNN 2.6.3", "CUDA 13.0", ...
std::vector<std::string> parts_present();
/// "NCCL", ...
std::vector<std::string> parts_absent();
/// Those of them that a run on such devices uses.
std::vector<std::string> parts_of_run(const std::vector<DeviceId>& devices);
/// Those of the parts present, of the versions that are loaded, by which devices of this kind compute.
std::vector<std::string> parts_that_compute(DeviceKind kind);

}  // namespace dptrain::app
