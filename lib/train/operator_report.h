#pragma once

#include <string>
#include <vector>

#include "train/operator_times.h"

namespace dptrain::train {

/// What `dptrain bench ops` prints.
struct OperatorReport {
  std::string run;
  std::string model;
  std::string precision;
  std::vector<DeviceOperators> devices;

  /// A table for each device, in lines of at most `width` characters if possible.
  std::string text(int width) const;
  /// One document; docs/operators.schema.json is its schema.
  std::string json() const;
};

}  // namespace dptrain::train
