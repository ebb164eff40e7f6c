#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/run_figures.h"

namespace dptrain::train {

/// What is known about a run before anything is trained.
struct AssertedRun {
  std::string name;
  bool evaluated = true;  ///< on the test split, at least once
  bool has_target = false;
};

struct AssertionOutcome {
  bool holds = true;
  std::string expression;
  std::string sentence;  ///< with the values: "speedup(ddp)>=1.5 failed: speedup(ddp) is 0.84"
};

/// `METRIC[(RUN)] OP NUMBER`: a bound on a result of a comparison. METRIC is one of speedup, efficiency, samples_per_s,
/// accuracy, accuracy_gap, seconds_to_target, peak_bytes, memory_imbalance, exposed_comm_s; OP is one of < <= > >= ==
/// !=. Without RUN the bound holds for every run, or, if METRIC is relative to the first run, for every other run.
/// accuracy_gap is one number for all runs together.
class ComparisonAssertion {
 public:
  /// Parses an expression. Throws 64, naming the column, what was expected there and what was found. For an unknown run
  /// it lists all runs of the comparison; for an accuracy it names the run that is never evaluated, or that has no
  /// target.
  ComparisonAssertion(std::string_view expression, std::span<const AssertedRun> runs);

  /// Checks the bound. `runs` are those that the assertion was made for, in the same order.
  AssertionOutcome check(std::span<const RunFigures> runs) const;

 private:
  struct Metric;
  struct Operator;
  class Parser;
  static const Metric kMetrics[];
  static const Operator kOperators[];

  std::string expression_;
  const Metric* metric_ = nullptr;
  std::optional<std::string> run_;
  const Operator* operator_ = nullptr;
  double bound_ = 0;
};

}  // namespace dptrain::train
