#pragma once

#include <span>

namespace dptrain::train {

/// The mean and the sample standard deviation (divisor n - 1); the deviation of one value is 0.
struct Spread {
  double mean = 0;
  double deviation = 0;
};

/// The spread of at least one value.
Spread spread_of(std::span<const double> values);

/// The difference between two runs that were repeated in pairs, with one seed for each pair.
struct PairedDifference {
  double mean = 0;           ///< of second - first
  double p_value = 1;        ///< the probability of a mean at least this far from 0 if there were no difference
  bool significant = false;  ///< p_value is under 0.05
};

/// The two-sided paired t test (Student, The Probable Error of a Mean, Biometrika 6, 1908). Both runs must have the
/// same number of values, at least 2. If all differences are equal, no test is needed: they are significant unless they
/// are 0.
PairedDifference paired_difference(std::span<const double> first, std::span<const double> second);

/// The probability that Student's t with `degrees_of_freedom`, at least 1, is between -t and t (Abramowitz and Stegun,
/// Handbook of Mathematical Functions, 26.7.3 and 26.7.4: exact, a finite sum).
double student_t_within(double t, int degrees_of_freedom);

}  // namespace dptrain::train
