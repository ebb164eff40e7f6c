#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "device/operator_log.h"
#include "plan/device_figures.h"

namespace dptrain::plan {

/// Calls of an operator that are alike.
struct MeasuredCalls {
  OperatorCost one;  ///< with its seconds
  int64_t count = 1;
};

/// What was measured of operators on one device, or on several alike.
struct MeasuredOperators {
  std::vector<MeasuredCalls> calls;
  double beside_s = 0;  ///< of a step, which no operator takes
  int cores = 0;        ///< that the process which measured could use
};

/// Of which devices measurements are wanted.
struct MeasuredDevices {
  const DeviceFigures& figures;
  Precision precision = Precision::fp32;
  std::vector<int> threads = {1};  ///< of CPU workers
};

/// Reads what `dptrain bench ops --json` has printed, of all its devices of the wanted kind. Throws 66 where the file
/// isn't there, 65 where it is something else, 78 where it was measured on other devices, in another precision or with
/// other threads, or where those planned for have unlike threads.
MeasuredOperators read_measured_operators(const std::filesystem::path& path, const MeasuredDevices& wanted);

}  // namespace dptrain::plan
