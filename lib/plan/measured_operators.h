#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "device/operator_log.h"
#include "plan/device_figures.h"

namespace dptrain::plan {

/// Calls of an operator with the same operands.
struct MeasuredCalls {
  OperatorCost one;  ///< one of them, with its seconds
  int64_t count = 1;
};

/// Measurements of operators on one device, or on several devices of the same kind.
struct MeasuredOperators {
  std::vector<MeasuredCalls> calls;
  double beside_s = 0;  ///< seconds of a step outside of its operators
  int cores = 0;        ///< the number of cores that the measuring process could use
};

/// The devices for which measurements are wanted.
struct MeasuredDevices {
  const DeviceFigures& figures;
  Precision precision = Precision::fp32;
  std::vector<int> threads = {1};  ///< by CPU worker
};

/// Reads what `dptrain bench ops --json` has printed, for all devices of the wanted kind. Throws 66 if the file is
/// missing, 65 if it is something else. Throws 78 if it was measured on other devices, in another precision or with
/// other thread counts, or if the planned devices have different thread counts.
MeasuredOperators read_measured_operators(const std::filesystem::path& path, const MeasuredDevices& wanted);

}  // namespace dptrain::plan
