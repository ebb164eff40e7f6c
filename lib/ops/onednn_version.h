#pragma once

#include <string>

#include "device/cpu_isa.h"

namespace dptrain::ops {

/// Returns the version of the loaded library, for example "2.6.3".
std::string onednn_version();

/// Returns the vector instructions that oneDNN uses: those that it found on the machine, reduced to the instruction
/// sets of our own kernels.
CpuIsa onednn_isa();

}  // namespace dptrain::ops
