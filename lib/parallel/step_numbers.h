#pragma once

#include <cstdint>

namespace dptrain::parallel {

/// A step within a training run.
struct StepNumbers {
  int64_t step = 0;   ///< from 1
  int64_t epoch = 0;  ///< from 1
  double learning_rate = 0;
};

}  // namespace dptrain::parallel
