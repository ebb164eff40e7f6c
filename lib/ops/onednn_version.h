#pragma once

#include <string>

#include "device/cpu_isa.h"

namespace dptrain::ops {

/// "2.6.3", of the library that is loaded.
std::string onednn_version();

/// The vector instructions that oneDNN uses, by the names of our own kernels: what it found on the machine, capped.
CpuIsa onednn_isa();

}  // namespace dptrain::ops
