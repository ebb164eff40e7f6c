#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/run_figures.h"

namespace dptrain::train {

/// What is known of a run before anything is trained.
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

/// `METRIC[(RUN)] OP NUMBER`: a bound on what a comparison measures. METRIC is one of speedup, efficiency,
/// samples_per_s, accuracy, accuracy_gap, seconds_to_target, peak_bytes, memory_imbalance, exposed_comm_s; OP one of <
/// <= > >= == !=. Without RUN it is of every run, or, where it is relative to the first, of every run but that.
/// accuracy_gap is of all runs together.
class ComparisonAssertion {
 public:
  /// Throws 64, naming the column, what was expected there and what was found; for a run that isn't in the comparison
  /// all that are, for an accuracy the run that is never evaluated, or that has no target.
  ComparisonAssertion(std::string_view expression, std::span<const AssertedRun> runs);

  /// `runs` are those that it was made for, in their order.
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
