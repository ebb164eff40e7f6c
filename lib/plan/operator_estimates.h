#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/device_figures.h"
#include "plan/measured_operators.h"

namespace dptrain::plan {

/// Estimates how long operators take on a device: from measurements, or else from the device's figures.
class OperatorEstimates {
 public:
  /// The source of an estimate.
  enum class Basis {
    same_operands,  ///< a measurement with these shapes
    same_operator,  ///< a measurement with other shapes, scaled by the ratio of the figures for both
    figures,        ///< the figures, scaled by how far measured operators are from them
  };
  struct Estimate {
    double seconds = 0;
    Basis basis = Basis::figures;
  };

  /// Makes estimates from figures and measurements, and keeps references to neither. For `measured` calls with the same
  /// operands it uses the mean.
  OperatorEstimates(const DeviceFigures& figures, Precision precision, const MeasuredOperators& measured = {});

  Estimate estimate(const OperatorCost& cost) const;
  double seconds(const OperatorCost& cost) const { return estimate(cost).seconds; }
  const DeviceFigures& figures() const { return figures_; }
  bool is_measured() const { return !by_name_.empty(); }
  /// Seconds of a step outside of its operators; 0 if nothing was measured.
  double beside_s() const { return beside_s_; }

 private:
  /// The measurement of an operator with given operands.
  struct Measured {
    double seconds = 0;  ///< the mean
    double by_figures = 0;
    double count = 0;
  };

  /// The ratio of an operator's `expected` seconds, by the figures, to those of a measured one; 1 if either has no
  /// size.
  static double size_ratio(double expected, const Measured& measured);
  double by_figures(const OperatorCost& cost) const { return operator_seconds(cost, figures_, precision_); }

  DeviceFigures figures_;
  Precision precision_;
  std::map<std::string, std::map<std::string, Measured>> by_name_;  ///< by name, then by operands
  double products_factor_ = 1;  ///< measured over expected seconds of operators that multiply
  double memory_factor_ = 1;    ///< measured over expected seconds of operators that only read and write memory
  double beside_s_ = 0;
};

/// Shares of operators' time by the source of the estimate; they add up to 1.
struct EstimateShares {
  double same_operands = 0;
  double same_operator = 0;
  double figures = 0;
};
EstimateShares shares_of(const OperatorEstimates& estimates, const std::vector<OperatorCost>& operators);

}  // namespace dptrain::plan
