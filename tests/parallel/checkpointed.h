#pragma once

#include <gtest/gtest.h>

#include "parallel/digits.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {

/// The full checkpoint state after some steps of 50 samples; the last step has 10.
inline TrainingState state_after(const StrategyOptions& options, int64_t steps = 4) {
  const auto strategy = make_strategy(options);
  train(*strategy, digits(50 * steps - 40, 10), steps, 50, 0.01, options.micro_batches);
  return strategy->training_state();
}

/// What all ranks send in a step of 50 samples. Reading the state afterwards must not count.
inline double bytes_of_step(const StrategyOptions& options) {
  const auto strategy = make_strategy(options);
  train(*strategy, digits(50, 10), 1, 50, 0.01);
  strategy->training_state();
  int64_t bytes = 0;
  for (int rank = 0; rank < options.devices; ++rank) bytes += strategy->take_costs(rank).communication.bytes;
  return static_cast<double>(bytes);
}

inline void expect_same_states(const TrainingState& a, const TrainingState& b) {
  expect_same_bits(a.model, b.model);
  expect_same_bits(a.optimizer, b.optimizer);
  expect_same_bits(a.average, b.average);
  ASSERT_EQ(a.loss_scale.has_value(), b.loss_scale.has_value());
  if (a.loss_scale) {
    EXPECT_EQ(a.loss_scale->skipped, b.loss_scale->skipped);
  }
}

}  // namespace dptrain::parallel
