#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/device_id.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Calls of an operator in a training step that are alike.
struct OperatorTime {
  std::string name;      ///< "conv2d backward weights"
  std::string operands;  ///< shapes of the tensors that it is given
  std::string way;       ///< the algorithm, of operators that have several; else empty
  int64_t calls = 0;     ///< of a step
  double seconds = 0;    ///< of all of them, the median over steps
  double flops = 0;      ///< of products, of all of them; 0 of operators that only go over memory
  int64_t bytes = 0;     ///< that they read and write, tensors given and results, of all of them
};

/// What a training step is made of on a device.
struct DeviceOperators {
  DeviceId device;
  int threads = 0;                      ///< of CPUs
  int64_t samples = 0;                  ///< of a step
  double step_s = 0;                    ///< the median; of a GPU, with a wait after each operator
  std::vector<OperatorTime> operators;  ///< the longest first

  /// Of all operators.
  double operators_s() const;
};

struct OperatorTimesOptions {
  int steps = 5;
  /// Asked between steps: whether to measure no more. May be empty.
  std::function<bool()> stopped = {};
};

/// Trains some steps of one batch on one device, under `single`, and times each operator where it stands in a step,
/// after steps that warm up. Of an operator that is made of others the outermost counts. Where it was stopped, no
/// operators. The experiment has one device. Throws as Trainer does.
DeviceOperators measure_operators(const Experiment& experiment, const Datasets& data,
                                  const OperatorTimesOptions& options);

}  // namespace dptrain::train
