#pragma once

#include <span>

namespace dptrain::train {

/// Mean and sample standard deviation, the one with n - 1 under the sum; the deviation of one value is 0.
struct Spread {
  double mean = 0;
  double deviation = 0;
};

/// Of at least one value.
Spread spread_of(std::span<const double> values);

/// What tells two runs apart that were repeated pair by pair, each pair from one seed.
struct PairedDifference {
  double mean = 0;           ///< of second - first
  double p_value = 1;        ///< how often a mean as far from 0 would come of no difference at all
  bool significant = false;  ///< p_value is under 0.05
};

/// The paired t test, two-sided (Student, The Probable Error of a Mean, Biometrika 6, 1908). Takes as many values of
/// one run as of the other, at least 2. Differences that are all alike need no test: they are significant unless 0.
PairedDifference paired_difference(std::span<const double> first, std::span<const double> second);

/// The probability that Student's t with so many degrees of freedom, at least 1, lies within -t and t (Abramowitz and
/// Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4: exact, a finite sum).
double student_t_within(double t, int degrees_of_freedom);

}  // namespace dptrain::train
