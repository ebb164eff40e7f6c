#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/device_id.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Calls of an operator with the same operands in a training step.
struct OperatorTime {
  std::string name;      ///< "conv2d backward weights"
  std::string operands;  ///< shapes of its input tensors
  std::string way;       ///< the algorithm, for operators that have several; else empty
  int64_t calls = 0;     ///< per step
  double seconds = 0;    ///< of all calls in a step, the median over steps
  double flops = 0;      ///< of products in all calls; 0 for operators that only read and write memory
  int64_t bytes = 0;     ///< that all calls read and write, inputs and results
};

/// The operators of a training step on a device.
struct DeviceOperators {
  DeviceId device;
  int threads = 0;                      ///< of CPU workers
  int64_t samples = 0;                  ///< per step
  double step_s = 0;                    ///< the median; for a GPU it includes a wait after each operator
  std::vector<OperatorTime> operators;  ///< the longest first

  /// Seconds of all operators in a step.
  double operators_s() const;
};

struct OperatorTimesOptions {
  int steps = 5;
  /// Called between steps; returns whether to stop measuring. May be empty.
  std::function<bool()> stopped = {};
};

/// Trains some steps with one batch on one device, under `single`, and times each operator inside the step. Steps to
/// warm up come first. If an operator consists of others, only the outermost counts. Returns no operators if
/// `options.stopped` has stopped it. The experiment must have one device. Throws as Trainer does.
DeviceOperators measure_operators(const Experiment& experiment, const Datasets& data,
                                  const OperatorTimesOptions& options);

}  // namespace dptrain::train
