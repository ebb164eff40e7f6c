#pragma once

#include <string>
#include <vector>

#include "parallel/injected_fault.h"
#include "train/comparison_assertion.h"
#include "train/config_difference.h"
#include "train/run_figures.h"

namespace dptrain::train {

/// What is told of a comparison.
struct ComparisonReport {
  std::vector<RunFigures> runs;  ///< at least one; what is relative is so to the first
  std::vector<DifferingKey> differences;
  std::vector<AssertionOutcome> assertions;
  std::vector<parallel::InjectedFault> faults = {};  ///< that every run suffered which has their rank
  bool finished = true;                              ///< false where a signal or a failure ended it early

  /// A table and sentences, in lines of at most `width` characters.
  std::string text(int width) const;
  std::string markdown() const;
  /// One document; docs/compare.schema.json is its schema.
  std::string json() const;

 private:
  /// Of the seconds, what differs, what is significant, why runs are slow, and which assertions held.
  std::vector<std::string> sentences() const;
};

}  // namespace dptrain::train
