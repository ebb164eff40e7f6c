#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "nn/named_values.h"

namespace dptrain::parallel {

/// The state that a strategy's state_dict returns.
using State = std::vector<nn::NamedValues>;

inline void expect_same_bits(const State& a, const State& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t t = 0; t < a.size(); ++t) {
    EXPECT_EQ(a[t].name, b[t].name);
    EXPECT_TRUE(a[t].values == b[t].values) << a[t].name;
  }
}

/// The state after some steps, and the loss of each step.
struct Trained {
  State state;
  std::vector<double> losses;
};

inline void expect_same_bits(const Trained& a, const Trained& b) {
  EXPECT_EQ(a.losses, b.losses);
  expect_same_bits(a.state, b.state);
}

}  // namespace dptrain::parallel
