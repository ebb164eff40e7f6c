#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/device_figures.h"
#include "plan/measured_operators.h"

namespace dptrain::plan {

/// What operators take on a device: as they were measured or, where they weren't, as the device's figures have it.
class OperatorEstimates {
 public:
  /// What an estimate is made from.
  enum class Basis {
    same_operands,  ///< measured of these shapes
    same_operator,  ///< measured of others, and scaled by what the figures say of both
    figures,        ///< scaled as the measured ones differ from them
  };
  struct Estimate {
    double seconds = 0;
    Basis basis = Basis::figures;
  };

  /// Keeps references to neither. Of `measured` calls that are alike the mean counts.
  OperatorEstimates(const DeviceFigures& figures, Precision precision, const MeasuredOperators& measured = {});

  Estimate estimate(const OperatorCost& cost) const;
  double seconds(const OperatorCost& cost) const { return estimate(cost).seconds; }
  const DeviceFigures& figures() const { return figures_; }
  bool is_measured() const { return !by_name_.empty(); }
  /// Of a step, which no operator takes; 0 where nothing was measured.
  double beside_s() const { return beside_s_; }

 private:
  /// Measured of some operands.
  struct Measured {
    double seconds = 0;  ///< the mean
    double by_figures = 0;
    double count = 0;
  };

  /// Of an operator that takes so long by the figures to a measured one; 1 where one of them has no size.
  static double size_ratio(double expected, const Measured& measured);
  double by_figures(const OperatorCost& cost) const { return operator_seconds(cost, figures_, precision_); }

  DeviceFigures figures_;
  Precision precision_;
  std::map<std::string, std::map<std::string, Measured>> by_name_;  ///< and by operands
  double products_factor_ = 1;  ///< measured to by figures, of operators that multiply
  double memory_factor_ = 1;    ///< of those that only go over memory
  double beside_s_ = 0;
};

/// Shares of operators' time by what it was estimated from; they add up to 1.
struct EstimateShares {
  double same_operands = 0;
  double same_operator = 0;
  double figures = 0;
};
EstimateShares shares_of(const OperatorEstimates& estimates, const std::vector<OperatorCost>& operators);

}  // namespace dptrain::plan
